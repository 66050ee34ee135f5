"""Reads `predict --format aicb` as AICB's tools do (split at commas) and compares it with the JSON.

Columns: aliyun/aicb, log_analyzer/log.py; words: utils/utils.py. Usage: aicb.py SHAPE2TRACE MODEL...
"""

import json
import subprocess
import sys

COLUMNS = ("comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,"
           "algbw,busbw,count").split(",")
COMM_TYPE = {"send": "isend", "recv": "irecv"}
GROUP = {"tp": "tp_group", "dp": "dp_group", "pp": "pp_group", "ep": "ep_group",
         "edp": "ep_dp_group", "embd": "embedding_group"}
OUTPUT = {"all_gather", "recv"}  # counted by what comes out


def predict(binary, *words):
    return subprocess.run([binary, "predict", *words], capture_output=True, text=True, check=True,
                          timeout=120).stdout


def check_row(row, event, sizes):
    assert row["comm_type"] == "CommType." + COMM_TYPE.get(event["op"], event["op"])
    name = GROUP.get(event["family"], event["family"].replace("-", "_") + "_group")
    assert row["comm_group"] == "CommGroup." + name
    assert int(row["msg_size"]) == event["output_bytes" if event["op"] in OUTPUT else "input_bytes"]
    assert row["stage"].split(".")[0] == event["phase"]
    assert (row["_elapsed_time"], row["algbw"], row["busbw"]) == ("None",) * 3
    assert int(row["count"]) == event["repeat"]
    if event["op"] not in ("send", "recv"):
        assert int(row["comm_group_size"]) == sizes[event["family"]] and row["additional"] == ""
        return
    assert row["comm_group_size"] == "1"
    activation = event["phase"] == "forward"
    way = "next" if activation == (event["op"] == "send") else "prev"
    assert row["additional"] == f"{event['op']}_{way}"


def main(binary, *models):
    for model in models:
        program = json.loads(predict(binary, model, "--format", "json"))
        sizes = {g["family"]: len(g["ranks"]) for g in program["groups"]}
        for rank in {r["rank"] for r in program["ranks"]}:
            of_rank = ("--rank", str(rank))
            lines = predict(binary, model, "--format", "aicb", *of_rank).splitlines()
            assert lines[0].split(",") == COLUMNS
            rows = [dict(zip(COLUMNS, line.split(","), strict=True)) for line in lines[1:]]
            assert rows.pop()["comm_type"] == "CommType.epoch_end"
            events = json.loads(predict(binary, model, "--format", "json", *of_rank))["events"]
            assert len(rows) == len(events)
            for row, event in zip(rows, events):
                check_row(row, event, sizes)
        print(f"{program['model']}: as many rows as events on every rank")


if __name__ == "__main__":
    main(*sys.argv[1:])
