"""Checks that the events of a world's ranks fit together. A simulated world never made its ranks meet, so this does:
every member of a group issues the same calls on it in the same order with the same counts, what one rank sends another
receives, and all-to-all splits mirror each other. A record that fails is not written.

  python agreement.py          checks every file of this folder; needs no PyTorch
"""

import json
import pathlib
from collections import defaultdict


def check_world(name, ranks):
    check_collectives(name, ranks)
    check_messages(name, ranks)


def check_collectives(name, ranks):
    calls = defaultdict(dict)  # group -> rank -> its calls on that group
    for rank, events in enumerate(ranks):
        for event in events:
            if event["op"] not in ("send", "recv"):
                calls[tuple(event["group"])].setdefault(rank, []).append(event)
    for group, by_rank in calls.items():
        if sorted(by_rank) != sorted(group):
            fail(name, f"group {group} was used only by ranks {sorted(by_rank)}")
        if len({len(mine) for mine in by_rank.values()}) != 1:
            fail(name, f"the members of group {group} issue different numbers of calls")
        for call in zip(*(by_rank[rank] for rank in group), strict=True):
            check_call(name, group, call)


def check_call(name, group, call):
    if len({(event["op"], event["dtype"], event["phase"]) for event in call}) != 1:
        fail(name, f"group {group}: the members issue different calls {call}")
    if call[0]["op"] == "all_to_all":
        check_splits(name, group, call)
    elif len({(event["input_elements"], event["output_elements"]) for event in call}) != 1:
        fail(name, f"group {group}: the members hand different counts to {call}")


def check_splits(name, group, call):
    for i in range(len(group)):
        for j in range(len(group)):
            if call[i]["splits"]["send"][j] != call[j]["splits"]["recv"][i]:
                fail(name, f"group {group}: splits of {group[i]} and {group[j]} differ in {call}")


def check_messages(name, ranks):
    sent, received = defaultdict(list), defaultdict(list)  # (from, to) -> counts in order
    for rank, events in enumerate(ranks):
        for event in events:
            if event["op"] == "send":
                sent[rank, event["peer"]].append((event["input_elements"], event["phase"]))
            if event["op"] == "recv":
                received[event["peer"], rank].append((event["output_elements"], event["phase"]))
    if sent != received:
        fail(name, f"sends {dict(sent)} and receives {dict(received)} do not pair up")


def fail(name, why):
    raise RuntimeError(f"{name}: {why}")


def check_file(path, repository):
    document = json.loads(path.read_text())
    if document["schema"] != "shape2trace.recorded/1" or document["name"] != path.stem:
        fail(path.stem, "not a recording under its own name")
    if document["model"] and not (repository / document["model"]).is_file():
        fail(path.stem, f"there is no {document['model']}")
    check_world(path.stem, [rank["events"] for rank in document["ranks"]])


def main():
    here = pathlib.Path(__file__).resolve().parent
    files = sorted(here.glob("*.json"))
    for path in files:
        check_file(path, here.parents[1])
    print(f"{len(files)} recordings, all ranks agree")


if __name__ == "__main__":
    main()
