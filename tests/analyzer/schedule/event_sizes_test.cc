// The numbers of one event: its shape, bytes and splits are those of one buffer, padding included.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "analyzer/analyze.h"
#include "analyzer/io/model_json.h"
#include "analyzer/program/listing.h"

namespace s2t {
namespace {

using testing::ElementsAre;

TEST(EventSizes, ShapeIsThatOfTheBytesHandedOver) {
  for (const char* folder : {"/models", "/tests/agreement/models"})
    for (const auto& file :
         std::filesystem::directory_iterator(S2T_SOURCE_DIR + std::string(folder))) {
      if (file.path().extension() != ".json") continue;
      for (const Event& e : list_events(analyze(load_model(file.path().string())))) {
        const Count bytes = e.op == Collective::recv ? e.volume.output_bytes : e.volume.input_bytes;
        EXPECT_EQ(elements(e.shape) * size_of(e.dtype), bytes)
            << file.path() << " event " << e.id << ", " << info(e.op).name << " of " << e.tensor;
      }
    }
}

// 31 columns over two ranks are 16 and 15, sent as 16; of 5 rows 3 and 2, sent as 3.
TEST(EventSizes, AnUnevenAllToAllIsPaddedOnBothDims) {
  const Program p = analyze(parse_model(R"j({
    "schema": "shape2trace.model/1", "mesh": {"axes": [{"name": "tp", "size": 2}]},
    "tensors": {"x": {"shape": [2, 5, 4]},
                "w": {"shape": [31, 4], "parameter": true, "layout": {"tp": "S(0)"},
                      "uneven": "ceil"}},
    "ops": [{"op": "linear", "inputs": ["x", "w"], "output": "y"},
            {"op": "redistribute", "inputs": ["y"], "output": "z", "layout": {"tp": "S(1)"}},
            {"op": "mean_square", "inputs": ["z"], "output": "loss"}],
    "loss": "loss"})j"));
  const std::vector<Event> events = list_events(p);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].shape, (Shape{2, 6, 16}));
  EXPECT_THAT(events[0].splits->send, ElementsAre(3, 3));
  EXPECT_EQ(events[0].splits->row_elements, 32u);
  EXPECT_EQ(events[0].volume, (Volume{192, 768, 768, 384}));
  EXPECT_EQ(events[1].shape, (Shape{2, 3, 32}));
  EXPECT_THAT(events[1].splits->recv, ElementsAre(16, 16));
  EXPECT_EQ(events[1].volume, (Volume{192, 768, 768, 384}));
}

TEST(EventSizes, AnUnevenReduceScatterIsPaddedWhereItIsCut) {
  const Program p =
      analyze(load_model(S2T_SOURCE_DIR "/tests/agreement/models/uneven_gather.json"));
  const std::vector<Event> events = list_events(p);
  ASSERT_EQ(events[1].op, Collective::reduce_scatter);
  EXPECT_EQ(events[1].shape, (Shape{8, 8}));  // 7 rows over four ranks
  EXPECT_EQ(events[1].volume.input_bytes, 256u);
}

}  // namespace
}  // namespace s2t
