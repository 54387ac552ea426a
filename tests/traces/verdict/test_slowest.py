"""What was slowest in a save or load, on hand-made traces."""

from .rows import moved, only, span, tensor, verdict_on


def test_the_slowest_request_names_the_tensor_of_most_of_its_bytes() -> None:
    """A write joins many tensors: the 4 bytes at its begin are not what took long."""
    finding = only(
        verdict_on(
            span("save", 0, 10),
            moved("write", 2, 8, 100, 100),
            tensor("before", 0, 100),
            tensor("step", 100, 4),
            tensor("average", 104, 50),
            tensor("average", 154, 40),
            tensor("last", 194, 60),
        )
    )
    (request,) = finding.slowest.requests
    assert (request.tensor, request.other_tensors) == ("average", 2)
    assert request.tensors == "average and 2 more"


def test_extents_past_the_largest_offset_end_there() -> None:
    last = 2**63 - 1
    found = verdict_on(
        span("save", 0, 9),
        moved("write", 1, 8, offset=last - 4, length=last, file=0),
        tensor("all", 0, last),
        tensor("tail", last - 2, last),
    )
    slowest = found.findings[0].slowest.requests[0]
    assert (slowest.tensor, slowest.other_tensors) == ("all", 1)


def test_a_request_of_no_place_holds_no_tensor() -> None:
    least = -(2**63)
    found = verdict_on(
        span("save", 0, 9),
        moved("write", 1, 8, offset=least, length=least, file=0),
        moved("write", 8, 9, offset=0, length=10, file=0),
        tensor("all", 0, 10),
    )
    assert [slow.tensor for slow in found.findings[0].slowest.requests] == [None, "all"]
