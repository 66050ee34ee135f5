#include "analyzer/io/json_cursor.h"

#include <gtest/gtest.h>

#include <functional>

namespace s2t {
namespace {

using Reader = std::function<void(JsonCursor)>;

// Every message of reading `text`, one per line; "" if there is none.
std::string complaints(const std::string& text, const Reader& read) {
  Diagnostics sink("m.json");
  const auto document = parse_json(text, sink);
  if (document) read(JsonCursor(*document, sink));
  std::string all;
  for (const Diagnostic& d : sink.list())
    all += (all.empty() ? "" : "\n") + to_string(d, sink.file());
  return all;
}

// The same for the value of key "v".
std::string about(const std::string& value, const Reader& read) {
  return complaints("{\"v\": " + value + "}",
                    [&](JsonCursor root) { read(root.object().required("v")); });
}

const Reader kPositive = [](JsonCursor c) { EXPECT_EQ(c.integer(1), std::nullopt); };
const Reader kByte = [](JsonCursor c) { EXPECT_EQ(c.integer(0, 255), std::nullopt); };
const Reader kString = [](JsonCursor c) { EXPECT_EQ(c.string(), std::nullopt); };

TEST(JsonInteger, IsReadAlsoWhenWrittenWithAnEmptyFraction) {
  EXPECT_EQ(about("[0, 255, 8.0, 2e2, -0]",
                  [](JsonCursor c) {
                    std::vector<int64_t> values;
                    for (const JsonCursor& e : c.elements())
                      values.push_back(e.integer(0, 255).value());
                    EXPECT_EQ(values, (std::vector<int64_t>{0, 255, 8, 200, 0}));
                  }),
            "");
  EXPECT_EQ(about("9223372036854775807", [](JsonCursor c) { EXPECT_EQ(c.integer(1), INT64_MAX); }),
            "");
}

TEST(JsonInteger, OutOfRangeSaysTheRange) {
  EXPECT_EQ(about("0", kPositive), "m.json: /v: 0; expected a positive integer. [out-of-range]");
  EXPECT_EQ(about("-4", kPositive), "m.json: /v: -4; expected a positive integer. [out-of-range]");
  EXPECT_EQ(about("-1", [](JsonCursor c) { EXPECT_EQ(c.integer(0), std::nullopt); }),
            "m.json: /v: -1; expected an integer that is not negative. [out-of-range]");
  EXPECT_EQ(about("256", kByte),
            "m.json: /v: 256; expected an integer from 0 to 255. [out-of-range]");
  EXPECT_EQ(about("1", [](JsonCursor c) { EXPECT_EQ(c.integer(2), std::nullopt); }),
            "m.json: /v: 1; expected an integer from 2. [out-of-range]");
}

TEST(JsonInteger, HugeIsNotWrapped) {
  EXPECT_EQ(about("18446744073709551616", kPositive),
            "m.json: /v: 18446744073709551616; expected a positive integer that fits in 63 bits. "
            "[out-of-range]");
  EXPECT_EQ(about("9223372036854775808", kPositive),
            "m.json: /v: 9223372036854775808; expected a positive integer that fits in 63 bits. "
            "[out-of-range]");
  EXPECT_EQ(about("1e300", kByte),
            "m.json: /v: 1e300; expected an integer from 0 to 255. [out-of-range]");
  EXPECT_EQ(about("-1e300", kByte),
            "m.json: /v: -1e300; expected an integer from 0 to 255. [out-of-range]");
}

TEST(JsonInteger, FractionIsNone) {
  EXPECT_EQ(about("1.5", kPositive),
            "m.json: /v: 1.5; expected a positive integer. [not-an-integer]");
  EXPECT_EQ(about("1e-3", kByte),
            "m.json: /v: 1e-3; expected an integer from 0 to 255. [not-an-integer]");
}

TEST(JsonTypes, WrongOneIsNamedAndShown) {
  EXPECT_EQ(about("\"64\"", kPositive),
            "m.json: /v: the string \"64\"; expected a positive integer. [wrong-type]");
  EXPECT_EQ(about("null", kByte),
            "m.json: /v: null; expected an integer from 0 to 255. [wrong-type]");
  EXPECT_EQ(about("[1, 2]", kString),
            "m.json: /v: the array [1, 2]; expected a string. [wrong-type]");
  EXPECT_EQ(about("{\"a\": 1}", [](JsonCursor c) { EXPECT_TRUE(c.elements().empty()); }),
            "m.json: /v: the object {\"a\": 1}; expected an array. [wrong-type]");
  EXPECT_EQ(about("7", kString), "m.json: /v: the number 7; expected a string. [wrong-type]");
  EXPECT_EQ(about("true", [](JsonCursor c) { EXPECT_EQ(c.number(), std::nullopt); }),
            "m.json: /v: the boolean true; expected a number. [wrong-type]");
  EXPECT_EQ(about("\"yes\"", [](JsonCursor c) { EXPECT_EQ(c.boolean(), std::nullopt); }),
            "m.json: /v: the string \"yes\"; expected true or false. [wrong-type]");
  EXPECT_EQ(about("\"" + std::string(1000, 'a') + "\"", kPositive),
            "m.json: /v: the string \"" + std::string(39, 'a') +
                "...; expected a positive integer. [wrong-type]");
}

TEST(JsonTypes, NameIsAStringWithSomethingInIt) {
  EXPECT_EQ(about("\"\"", [](JsonCursor c) { EXPECT_EQ(c.name(), std::nullopt); }),
            "m.json: /v: an empty string; expected a name. [empty-name]");
}

TEST(JsonTypes, WholeDocumentHasNoPointer) {
  EXPECT_EQ(complaints("[]", [](JsonCursor c) { c.object().required("a"); }),
            "m.json: the array []; expected an object. [wrong-type]");
}

enum class Order { gpipe, one_f_one_b };
constexpr Word<Order> kOrders[] = {{"gpipe", Order::gpipe}, {"1f1b", Order::one_f_one_b}};

std::optional<Order> read_order(JsonCursor c) {
  return c.one_of(std::span<const Word<Order>>(kOrders), "schedule");
}

TEST(JsonWords, AreLookedUpInTheirTable) {
  EXPECT_EQ(about("\"1f1b\"", [](JsonCursor c) { EXPECT_EQ(read_order(c), Order::one_f_one_b); }),
            "");
  EXPECT_EQ(about("\"1f1p\"", [](JsonCursor c) { EXPECT_EQ(read_order(c), std::nullopt); }),
            "m.json: /v: unknown schedule \"1f1p\"; expected one of \"gpipe\", \"1f1b\". Did you "
            "mean \"1f1b\"? [unknown-schedule]");
  EXPECT_EQ(about("3", [](JsonCursor c) { EXPECT_EQ(read_order(c), std::nullopt); }),
            "m.json: /v: the number 3; expected one of \"gpipe\", \"1f1b\". [wrong-type]");
}

void read_tensor(JsonCursor c) {
  JsonObject tensor = c.object();
  for (const JsonCursor& dim : tensor.required("shape").elements()) dim.integer(1);
  tensor.optional("dtype").string();
  tensor.optional("requires_grad").boolean();
}

TEST(JsonObjects, UnknownKeysAreReportedWithTheNearestKnownOne) {
  EXPECT_EQ(about("{\"shape\": [1], \"dtyp\": \"f32\", \"zzz\": 1}", read_tensor),
            "m.json: /v/dtyp: unknown key \"dtyp\"; expected one of \"shape\", \"dtype\", "
            "\"requires_grad\". Did you mean \"dtype\"? [unknown-key]\n"
            "m.json: /v/zzz: unknown key \"zzz\"; expected one of \"shape\", \"dtype\", "
            "\"requires_grad\". [unknown-key]");
}

TEST(JsonObjects, CommentsAreNoUnknownKeys) {
  EXPECT_EQ(about("{\"shape\": [], \"$schema\": 1, \"//\": 2, \"//x\": 3, \"comment\": 4, "
                  "\"description\": 5}",
                  read_tensor),
            "");
}

TEST(JsonObjects, MissingKeyIsReportedAtTheObjectOnce) {
  EXPECT_EQ(about("{\"dtype\": \"f32\"}", read_tensor),
            "m.json: /v: no key \"shape\"; expected it beside \"dtype\". [missing-key]");
  EXPECT_EQ(about("{}", read_tensor),
            "m.json: /v: no key \"shape\"; expected it here. [missing-key]");
}

TEST(JsonObjects, WrongTypeIsReportedOnceHoweverMuchIsAskedOfIt) {
  EXPECT_EQ(about("3", read_tensor), "m.json: /v: the number 3; expected an object. [wrong-type]");
}

TEST(JsonObjects, AllIndependentErrorsAreCollected) {
  EXPECT_EQ(about("{\"shape\": [0, \"a\", 2], \"dtype\": 7, \"grad\": true}", read_tensor),
            "m.json: /v/shape/0: 0; expected a positive integer. [out-of-range]\n"
            "m.json: /v/shape/1: the string \"a\"; expected a positive integer. [wrong-type]\n"
            "m.json: /v/dtype: the number 7; expected a string. [wrong-type]\n"
            "m.json: /v/grad: unknown key \"grad\"; expected one of \"shape\", \"dtype\", "
            "\"requires_grad\". [unknown-key]");
}

TEST(JsonObjects, NullIsAbsentOnlyWhereAskedSo) {
  EXPECT_EQ(complaints("{\"a\": null, \"b\": null}",
                       [](JsonCursor c) {
                         JsonObject object = c.object();
                         EXPECT_EQ(object.nullable("a").integer(1), std::nullopt);
                         EXPECT_EQ(object.optional("b").integer(1), std::nullopt);
                       }),
            "m.json: /b: null; expected a positive integer. [wrong-type]");
}

TEST(JsonObjects, MembersAreFreeNamesInTheOrderOfTheFile) {
  EXPECT_EQ(complaints("{\"w2\": 1, \"description\": 2, \"$note\": 3, \"a/b\": 4}",
                       [](JsonCursor c) {
                         std::string names;
                         JsonObject object = c.object();
                         for (const JsonCursor& m : object.members())
                           names += m.key() + "@" + m.pointer() + " ";
                         EXPECT_EQ(names, "w2@/w2 description@/description a/b@/a~1b ");
                       }),
            "");
}

TEST(JsonObjects, AbsentCursorsSayNothingAndPointAtTheirObject) {
  EXPECT_EQ(about("{\"x\": {}}",
                  [](JsonCursor c) {
                    JsonObject outer = c.object();
                    JsonObject inner = outer.required("x").object();
                    const JsonCursor none = inner.optional("y");
                    EXPECT_FALSE(none);
                    EXPECT_EQ(none.pointer(), "/v/x");
                    EXPECT_EQ(none.integer(1), std::nullopt);
                    EXPECT_EQ(none.name(), std::nullopt);
                    EXPECT_EQ(read_order(none), std::nullopt);
                    EXPECT_TRUE(none.elements().empty());
                    EXPECT_FALSE(none.object().required("z"));
                  }),
            "");
}

TEST(JsonNames, UnknownListsTheKnown) {
  const std::vector<std::string> one{"h0"}, none;
  EXPECT_EQ(about("\"h_0\"", [&](JsonCursor c) { c.unknown("tensor", "h_0", one); }),
            "m.json: /v: unknown tensor \"h_0\"; expected \"h0\". Did you mean \"h0\"? "
            "[unknown-tensor]");
  EXPECT_EQ(about("\"h0\"", [&](JsonCursor c) { c.unknown("tensor", "h0", none); }),
            "m.json: /v: unknown tensor \"h0\"; expected none, for there is none. "
            "[unknown-tensor]");
}

}  // namespace
}  // namespace s2t
