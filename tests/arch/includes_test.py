"""Negative controls: a checker that finds nothing must be able to find something."""

import tempfile
import unittest
from pathlib import Path

from includes import violations


def check(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return violations(root)


class Includes(unittest.TestCase):
    def test_the_declared_direction_is_accepted(self):
        self.assertEqual(check({
            "analyzer/base/text.h": "#include <string>\n",
            "analyzer/mesh/mesh.h": '#include "analyzer/base/text.h"\n',
            "analyzer/analyze.cc": '#include "analyzer/mesh/mesh.h"\n',
            "runtime/comm/call.h": '#include "analyzer/mesh/mesh.h"\n',
            "analyzer/cli/main.cc": '#include "runtime/comm/call.h"\n#include <CLI/CLI.hpp>\n'}), [])

    def test_an_upward_include_is_named_with_its_line(self):
        found = check({"analyzer/base/text.h": '\n#include "analyzer/mesh/mesh.h"\n',
                       "analyzer/mesh/mesh.h": ""})
        self.assertEqual(found, ["analyzer/base/text.h:2: analyzer/base may not include "
                                 "analyzer/mesh/mesh.h"])

    def test_the_runtime_reaches_the_backward_through_no_detour(self):
        found = check({"runtime/tape/tape.h": '#include "analyzer/forward/plan.h"\n',
                       "analyzer/forward/plan.h": '#include "analyzer/backward/dual.h"\n',
                       "analyzer/backward/dual.h": ""})
        self.assertIn("runtime/tape/tape.h:1: runtime reaches analyzer/backward: "
                      "runtime/tape/tape.h -> analyzer/forward/plan.h -> "
                      "analyzer/backward/dual.h", found)

    def test_json_stays_at_the_rim(self):
        json = "#include <nlohmann/json.hpp>\n"
        self.assertEqual(check({"analyzer/io/json_parse.cc": json}), [])
        self.assertEqual(check({"analyzer/graph/graph.h": json}),
                         ["analyzer/graph/graph.h:1: JSON header <nlohmann/json.hpp> outside its "
                          "place"])

    def test_cli_mpi_and_cuda_headers_stay_in_their_place(self):
        for header in ("CLI/CLI.hpp", "mpi.h", "nccl.h", "cuda_runtime.h"):
            self.assertEqual(len(check({"runtime/run/execute.cc": f"#include <{header}>\n"})), 1)

    def test_a_folder_without_a_row_is_reported(self):
        self.assertEqual(check({"analyzer/util/misc.h": ""}),
                         ["analyzer/util/misc.h:1: no row for this folder in "
                          "tests/arch/includes.py"])

    def test_one_name_for_two_types_is_reported(self):
        self.assertEqual(check({"analyzer/base/text.h": "struct Frame {\n};\n",
                                "analyzer/mesh/mesh.h": "\nclass Frame final : Picture {\n};\n"}),
                         ["analyzer/mesh/mesh.h:2: Frame is a type of analyzer/base/text.h "
                          "already"])

    def test_a_path_that_is_not_from_the_root_is_reported(self):
        self.assertEqual(len(check({"analyzer/base/text.cc": '#include "text.h"\n',
                                    "analyzer/base/text.h": ""})), 1)


if __name__ == "__main__":
    unittest.main()
