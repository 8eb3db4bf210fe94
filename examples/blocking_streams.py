from flo import BlockingFlo

with BlockingFlo() as flo:
    flo.streams.append_many("visits", [b"alice", b"bob", b"alice"])

    counted = flo.kv.get("visits-counted").value or b"0-0"
    for record in flo.streams.read("visits", after=counted.decode()).items:
        with flo.kv.transaction() as txn:  # the count and how far it is, in one step
            txn.increment(f"visits:{record.payload.decode()}")
            txn.put("visits-counted", record.stream_id.encode())

    for key in flo.kv.keys("visits:"):
        print(key, flo.kv.get_json(key))
