"""agreement.py must reject a recording in which one rank was changed."""

import json
import pathlib
import unittest

from agreement import check_world

HERE = pathlib.Path(__file__).parent


def ranks_of(name):
    return [rank["events"] for rank in json.loads((HERE / f"{name}.json").read_text())["ranks"]]


class Disagreement(unittest.TestCase):
    def rejects(self, ranks, why):
        with self.assertRaisesRegex(RuntimeError, why):
            check_world("changed", ranks)

    def test_a_missing_call_is_seen(self):
        ranks = ranks_of("tp_ar_b128")
        del ranks[1][0]
        self.rejects(ranks, "different numbers of calls")

    def test_another_count_is_seen(self):
        ranks = ranks_of("tp_sp_b128")
        ranks[1][0]["input_elements"] += 1
        self.rejects(ranks, "different counts")

    def test_another_order_is_seen(self):
        ranks = ranks_of("tp_sp_b128")
        ranks[1][0], ranks[1][1] = ranks[1][1], ranks[1][0]
        self.rejects(ranks, "different calls")

    def test_splits_that_do_not_mirror_are_seen(self):
        ranks = ranks_of("ep_skewed")
        ranks[0][0]["splits"]["send"].reverse()
        self.rejects(ranks, "splits")

    def test_a_send_that_nobody_receives_is_seen(self):
        ranks = ranks_of("pp_mb1")
        ranks[1] = [event for event in ranks[1] if event["op"] != "recv"]
        self.rejects(ranks, "do not pair up")


if __name__ == "__main__":
    unittest.main()
