"""Reads `predict --format chakra` with Google's protobuf library and compares it with the JSON.

The schema is built here from the published field numbers (mlcommons/chakra,
schema/protobuf/et_def.proto), so that what is judged is not what wrote the file. For every rank:
the framing, the process groups as rank lists, every node's type, bytes and group, dependencies that
point backwards, and messages whose two ends name each other with one tag.
Usage: chakra.py SHAPE2TRACE MODEL...
"""

import ast
import json
import subprocess
import sys
from collections import Counter

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

U64, I64, I32, BOOL, TEXT, MESSAGE = 4, 3, 5, 8, 9, 11  # FieldDescriptorProto.Type
SCHEMA = {
    "Uint64List": [("values", 1, U64, "many")],
    "AttributeProto": [("name", 1, TEXT, "one"), ("int32_val", 7, I32, "value"),
                       ("int64_val", 9, I64, "value"), ("uint64_val", 13, U64, "value"),
                       ("uint64_list", 14, "Uint64List", "value"), ("bool_val", 27, BOOL, "value"),
                       ("string_val", 29, TEXT, "value")],
    "GlobalMetadata": [("version", 1, TEXT, "one"), ("attr", 2, "AttributeProto", "many")],
    "IOInfo": [("values", 1, TEXT, "one"), ("shapes", 2, TEXT, "one"), ("types", 3, TEXT, "one")],
    "Node": [("id", 1, U64, "one"), ("name", 2, TEXT, "one"), ("type", 3, I32, "one"),
             ("ctrl_deps", 4, U64, "many"), ("data_deps", 5, U64, "many"),
             ("inputs", 8, "IOInfo", "one"), ("outputs", 9, "IOInfo", "one"),
             ("attr", 10, "AttributeProto", "many")],
}
METADATA, SEND, RECV, COLLECTIVE = 1, 5, 6, 7  # NodeType
COMM_TYPE = {"all_reduce": 0, "reduce": 1, "all_gather": 2, "broadcast": 5, "all_to_all": 6,
             "reduce_scatter": 7}


def message_classes():
    file = descriptor_pb2.FileDescriptorProto(name="et.proto", package="chakra", syntax="proto3")
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        if any(kind == "value" for *_, kind in fields):
            message.oneof_decl.add(name="value")
        for field, number, of, kind in fields:
            f = message.field.add(name=field, number=number, label=3 if kind == "many" else 1)
            f.type = MESSAGE if isinstance(of, str) else of
            if isinstance(of, str):
                f.type_name = ".chakra." + of
            if kind == "value":
                f.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = getattr(message_factory, "GetMessageClass", None)  # protobuf 4.22 and newer
    made = made or message_factory.MessageFactory(pool).GetPrototype
    return {name: made(pool.FindMessageTypeByName("chakra." + name)) for name in SCHEMA}


CLASSES = message_classes()


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def read_messages(data):
    """GlobalMetadata, then nodes; raises if the lengths do not add up to the file."""
    messages, at, kind = [], 0, "GlobalMetadata"
    while at < len(data):
        size, at = varint(data, at)
        assert at + size <= len(data), "a message ends behind the file"
        message = CLASSES[kind]()
        message.ParseFromString(data[at:at + size])
        assert not message.FindInitializationErrors() and not unknown(message), message
        messages.append(message)
        at, kind = at + size, "Node"
    return messages


def unknown(message):
    fields = getattr(message, "UnknownFields", lambda: ())()
    return len(fields)


def attributes(node):
    values = {}
    for attr in node.attr:
        assert attr.name not in values, f"{attr.name} twice"
        value = getattr(attr, attr.WhichOneof("value"))
        values[attr.name] = list(value.values) if hasattr(value, "values") else value
    return values


def predict(binary, *words):
    return subprocess.run([binary, "predict", *words], capture_output=True, check=True,
                          timeout=120).stdout


def check_groups(node, program, rank):
    """Rank lists by number, as ASTRA-sim cuts them out of the node: without [' and ']."""
    assert node.type == METADATA and node.id == 0 and "process_group" in node.name
    assert isinstance(ast.literal_eval(node.inputs.values), list)
    listed = json.loads(node.inputs.values[2:-2])
    mine = [g for g in program["groups"] if rank in g["ranks"] and len(g["ranks"]) > 1]
    assert [g["ranks"] for g in listed] == [g["ranks"] for g in mine], (listed, mine)
    assert [g["pg_desc"] for g in listed] == [g["family"] for g in mine]
    numbers = [program["groups"].index(g) + 1 for g in mine]
    assert [int(g["pg_name"]) for g in listed] == numbers  # equal on every member
    return {int(g["pg_name"]): g for g in listed}


def check_node(node, event, groups, rank, tags):
    a = attributes(node)
    assert a["is_cpu_op"] is False
    assert groups[int(a["pg_name"])]["pg_desc"] == event["family"]
    if event["op"] in ("send", "recv"):
        send = event["op"] == "send"
        assert node.type == (SEND if send else RECV)
        assert a["comm_size"] == event["input_bytes" if send else "output_bytes"] > 0
        ends = (rank, event["peer"]) if send else (event["peer"], rank)
        assert (a["comm_src"], a["comm_dst"]) == ends
        tags[event["op"], ends, a["comm_tag"], a["comm_size"]] += 1
    else:
        assert node.type == COLLECTIVE
        assert a["comm_type"] == COMM_TYPE[event["op"]]
        assert a["comm_size"] == event["input_bytes"]
    if "splits" in event:
        assert a["in_split_size"] == event["splits"]["send"]
        assert a["out_split_size"] == event["splits"]["recv"]
    assert a["elements"] == event["elements"] and a["owner"] == event["owner"]


def check_dependencies(nodes, events):
    """Each waits for the launch before it; what is launched together waits for the same."""
    launches = [[0]]
    for i, (node, event) in enumerate(zip(nodes, events)):
        assert node.id == i + 1
        together = (i > 0 and event["batch"] is not None
                    and event["batch"] == events[i - 1]["batch"])
        if not together:
            launches.append([])
        launches[-1].append(node.id)
        assert list(node.data_deps) == launches[-2], (node, launches[-2:])


def check_rank(binary, model, program, rank, tags):
    metadata, group_node, *nodes = read_messages(
        predict(binary, model, "--format", "chakra", "--rank", str(rank)))
    assert metadata.version == "0.0.4"
    groups = check_groups(group_node, program, rank)
    events = json.loads(predict(binary, model, "--format", "json", "--rank", str(rank)))["events"]
    assert len(nodes) == len(events), (len(nodes), len(events))
    for node, event in zip(nodes, events):
        check_node(node, event, groups, rank, tags)
    check_dependencies(nodes, events)
    return len(nodes)


def main(binary, *models):
    for model in models:
        program = json.loads(predict(binary, model, "--format", "json"))
        world = 1
        for axis in program["mesh"]["axes"]:
            world *= axis["size"]
        tags = Counter()
        nodes = sum(check_rank(binary, model, program, r, tags) for r in range(world))
        sent = Counter({k[1:]: n for k, n in tags.items() if k[0] == "send"})
        received = Counter({k[1:]: n for k, n in tags.items() if k[0] == "recv"})
        assert sent == received, (sent - received, received - sent)
        assert all(n == 1 for n in sent.values()), "a tag is used twice between two ranks"
        print(f"{program['model']}: {world} ranks, {nodes} nodes, {len(sent)} messages")


if __name__ == "__main__":
    main(*sys.argv[1:])
