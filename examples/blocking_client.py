from flo import BlockingFlo

with BlockingFlo() as flo:
    flo.actions.register("nightly-report")
    invocation = flo.actions.invoke("nightly-report", {"day": "2026-03-14"})
    print(invocation.run_id, flo.actions.status(invocation.run_id).status)
