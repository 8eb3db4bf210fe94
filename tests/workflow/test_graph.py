from flo.workflow.document.read import read
from flo.workflow.draw import as_mermaid, as_text
from flo.workflow.graph import Edge, Node, NodeKind, areas_of, graph_of

from .documents import HEAD, SEED

ORDER = read((SEED / "order-processing.yaml").read_text()).definition
PARALLEL = read(
    HEAD
    + """\
start:
  parallel:
    join: any
    branches:
      email: "@actions/email"
      payment:
        start:
          run: "@actions/authorize"
          transitions: {success: capture, failure: flo.Failed}
        steps:
          capture:
            run: "@actions/capture"
            transitions: {success: flo.Completed, failure: flo.Failed}
  transitions: {success: pause, failure: flo.Failed}
steps:
  pause:
    sleep: 5m
    transitions: {success: all}
  all:
    forEach: {items: $.input.list, run: "@workflow/one:2"}
    transitions: {success: flo.Completed, failure: Bad}
terminals: {Bad: failed}
"""
).definition


def test_the_graph_of_a_workflow_has_steps_endings_and_outcomes():
    graph = graph_of(ORDER)

    assert graph.nodes[0] == Node("start", NodeKind.RUN, "@actions/validate-order")
    assert Node("await_approval", NodeKind.SIGNAL, "signal approval") in graph.nodes
    assert Node("OrderRejected", NodeKind.TERMINAL, "failed") in graph.nodes
    assert Edge("check_approval", "await_approval", "failure") in graph.edges
    assert Edge("await_approval", "OrderRejected", "timeout") in graph.edges
    assert len(graph.edges) == 10


def test_branches_stand_inside_of_their_parallel_step():
    graph = graph_of(PARALLEL)

    assert [(node.name, node.inside) for node in graph.nodes if node.inside] == [
        ("email", "start"),
        ("payment", "start"),
        ("capture", "start"),
    ]
    assert Edge("start", "email", "branch") in graph.edges
    assert Edge("payment", "capture", "success") in graph.edges
    assert not [edge for edge in graph.edges if edge.source == "capture"]
    assert [node.label for node in graph.nodes if not node.inside] == [
        "parallel, join any",
        "sleep 300000 ms",
        "@workflow/one:2 for each of $.input.list",
        "failed",
        "completed",
        "failed",
    ]


def test_every_branch_is_an_area_of_its_own():
    areas = list(areas_of(PARALLEL))

    assert [(area.start, area.parallel) for area in areas] == [
        ("start", ""),
        ("email", "start"),
        ("payment", "start"),
    ]
    assert areas[2].paths["capture"] == (
        "start",
        "parallel",
        "branches",
        "payment",
        "steps",
        "capture",
    )


def test_a_workflow_as_text():
    assert (
        as_text(PARALLEL)
        == """\
order 1

start                    parallel, join any
├─ branch ─▸ email
├─ branch ─▸ payment
├─ success ─▸ pause
└─ failure ─▸ ■ flo.Failed

  ║ email                    @actions/email

  ║ payment                  @actions/authorize
  ║ └─ success ─▸ capture

  ║ capture                  @actions/capture

pause                    sleep 300000 ms
└─ success ─▸ all

all                      @workflow/one:2 for each of $.input.list
├─ success ─▸ ■ flo.Completed
└─ failure ─▸ ■ Bad
"""
    )


def test_a_workflow_as_mermaid():
    assert (
        as_mermaid(PARALLEL)
        == """\
flowchart TD
  n0_start[["start<br/>parallel, join any"]]
  n1_pause[/"pause<br/>sleep 300000 ms"/]
  n2_all[["all<br/>@workflow/one:2 for each of $.input.list"]]
  n6_flo_Failed(["flo.Failed<br/>failed"])
  n7_flo_Completed(["flo.Completed<br/>completed"])
  n8_Bad(["Bad<br/>failed"])
  subgraph n0_start_branches["start: any"]
    n3_email["email<br/>@actions/email"]
    n4_payment["payment<br/>@actions/authorize"]
    n5_capture["capture<br/>@actions/capture"]
  end
  n0_start -->|"branch"| n3_email
  n0_start -->|"branch"| n4_payment
  n0_start -->|"success"| n1_pause
  n0_start -->|"failure"| n6_flo_Failed
  n1_pause -->|"success"| n2_all
  n2_all -->|"success"| n7_flo_Completed
  n2_all -->|"failure"| n8_Bad
  n4_payment -->|"success"| n5_capture
"""
    )


def test_names_cannot_break_out_of_a_drawing():
    text = (
        HEAD
        + """\
start:
  run: "@actions/a"
  transitions: {'say "hi" <b>': flo.Completed, failure: flo.Failed}
"""
    )
    assert '|"say &quot;hi&quot; &lt;b>"|' in as_mermaid(read(text).definition)
