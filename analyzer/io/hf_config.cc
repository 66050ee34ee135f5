#include "analyzer/io/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "analyzer/base/text.h"
#include "analyzer/io/hf_families.h"
#include "analyzer/io/hf_keys.h"

namespace s2t {

std::string place_of(JsonObject& config, Keys keys) {
  for (const std::string_view key : keys)
    if (const JsonCursor at = config.nullable(key)) return at.pointer();
  return "";
}

std::optional<int64_t> optional_size(JsonObject& config, Keys keys, int64_t most) {
  std::optional<int64_t> found;
  std::string_view first;
  for (const std::string_view key : keys) {
    const JsonCursor at = config.nullable(key);
    if (!at) continue;
    const int64_t value = at.integer(1, most).value_or(0);
    if (found && value > 0 && *found > 0 && value != *found)
      at.error(fmt::format("{}, but {} is {}", value, quoted(first), *found),
               "one value: both keys mean the same", "", "contradiction");
    if (!found) first = key;
    found = found.value_or(value);
  }
  return found;
}

int64_t required_size(JsonObject& config, Keys keys, int64_t most) {
  if (const auto found = optional_size(config, keys, most)) return *found;
  for (const std::string_view key : keys)
    if (const JsonCursor at = config.optional(key)) {  // there, but null
      at.error("null", "a positive integer", "", "wrong-type");
      return 0;
    }
  if (!config.cursor()) return 0;
  std::vector<std::string> names(keys.begin(), keys.end());
  config.cursor().error(
      "no key " + s2t::quoted(names.front()),
      names.size() == 1 ? "it in this object" : "it, or a synonym: " + quoted_list(names, 8), "",
      "missing-key");
  return 0;
}

namespace {

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const ConfigFamily& f : config_families()) names.emplace_back(f.type);
  return names;
}

// What is said of a model that is not read, at its name.
const ConfigFamily* no_family(JsonObject& config, const JsonCursor& at, std::string what) {
  const bool own_code = config.nullable("auto_map").present();
  at.error(what + (own_code ? ", a model of its own code (\"auto_map\")" : ""),
           "one that is read: " + quoted_list(family_names(), 64),
           own_code ? "What that code computes is not in this file."
                    : did_you_mean(at.string().value_or(""), family_names()),
           "unsupported-config");
  return nullptr;
}

bool is_class_of(const std::string& klass, const ConfigFamily& family) {
  const std::string base(family.klass);
  return klass == base || klass == base + "ForCausalLM" || klass == base + "LMHeadModel" ||
         klass == base + "Model";
}

// By "model_type", else by the class in "architectures".
const ConfigFamily* find_family(JsonObject& config) {
  if (const JsonCursor type = config.nullable("model_type")) {
    const std::optional<std::string> name = type.name();
    if (!name) return nullptr;
    for (const ConfigFamily& f : config_families())
      if (f.type == *name) return &f;
    return no_family(config, type, "model type " + s2t::quoted(name->substr(0, 80)));
  }
  const JsonCursor classes = config.nullable("architectures");
  for (const JsonCursor& at : classes.elements()) {
    const std::optional<std::string> klass = at.string();
    if (!klass) return nullptr;
    for (const ConfigFamily& f : config_families())
      if (is_class_of(*klass, f)) return &f;
    return no_family(config, at, "class " + s2t::quoted(klass->substr(0, 80)));
  }
  const bool told = classes.present() && !classes.is(JsonKind::array);
  if (!told && config.cursor().is(JsonKind::object))
    config.cursor().error(
        "no \"model_type\": this is no config.json of transformers",
        "one, with \"model_type\" and the sizes of the model",
        "Another tool's file of the same name does not say enough about the model's shape.",
        "unsupported-config");
  return nullptr;
}

bool has(JsonObject& config, const Switch& part) {
  if (part.key.empty()) return part.otherwise;
  return config.nullable(part.key).boolean().value_or(part.otherwise);
}

// Spellings of one key.
const Keys kHeads{"num_attention_heads", "n_head", "num_heads", "n_heads"};
const Keys kKvHeads{"num_key_value_heads", "num_kv_heads"};
const Keys kHidden{"hidden_size", "n_embd", "n_embed", "d_model", "hidden_dim"};
const Keys kLayers{"num_hidden_layers", "n_layer", "num_layers", "n_layers"};
const Keys kFfn{"intermediate_size", "n_inner",      "ffn_dim", "d_ff",
                "ffn_hidden_size",   "ffn_embed_dim"};
const Keys kPositions{"max_position_embeddings", "n_positions"};
const std::pair<const char*, Keys> kPlaces[] = {{"heads", kHeads},
                                                {"kv_heads", kKvHeads},
                                                {"layers", kLayers},
                                                {"ffn", kFfn},
                                                {"positions", kPositions}};

// At the key of the heads; that of what they do not fit is named too.
void indivisible(JsonObject& config, std::string found, Keys other, std::string expected) {
  if (const std::string place = place_of(config, other); !place.empty())
    found += fmt::format(" ({})", place);
  config.cursor().sink().add(
      {place_of(config, kHeads), std::move(found), std::move(expected), "", "indivisible"});
}

void read_heads(JsonObject& config, const ConfigFamily& family, Architecture& a) {
  a.heads = required_size(config, kHeads, kMostHeads);
  const auto kv = family.grouped ? optional_size(config, kKvHeads, kMostHeads) : std::nullopt;
  const bool stated_null = config.optional("num_key_value_heads").present();
  const int64_t absent = family.kv_heads > 0 && !stated_null ? family.kv_heads : a.heads;
  a.kv_heads = kv.value_or(absent);
  const auto width = optional_size(config, {"head_dim", "d_kv"});
  if (width || family.head_dim > 0) {
    a.head_dim = width.value_or(family.head_dim);
    return;
  }
  if (a.heads == 0 || a.hidden == 0) return;  // reported
  a.head_dim = a.hidden / a.heads;
  if (a.hidden % a.heads != 0)
    indivisible(config, fmt::format("{} heads in a hidden size of {}", a.heads, a.hidden), kHidden,
                "heads that divide it, or \"head_dim\"");
}

void read_widths(JsonObject& config, const ConfigFamily& family, Architecture& a) {
  a.layers = required_size(config, kLayers, kMostLayers);
  a.hidden = required_size(config, kHidden);
  if (family.ffn_factor > 0)
    a.ffn = optional_size(config, kFfn).value_or(family.ffn_factor * a.hidden);
  else if (!family.own_ffn)
    a.ffn = required_size(config, kFfn);
  a.vocab = family.vocab > 0 ? optional_size(config, {"vocab_size"}).value_or(family.vocab)
                             : required_size(config, {"vocab_size"});
  const auto positions = optional_size(config, kPositions);
  if (family.positions == Positions::learned)
    a.position_rows = positions.value_or(family.position_rows);
  else
    a.stated_positions = positions.value_or(0);
  for (const auto& [size, keys] : kPlaces)
    if (std::string place = place_of(config, keys); !place.empty()) a.at[size] = std::move(place);
}

// Of the file or of the part that is read; a word that is no type says nothing.
void read_stored(JsonObject& config, Architecture& a) {
  for (const char* key : {"torch_dtype", "dtype"})
    if (const JsonCursor at = config.nullable(key); at.is(JsonKind::string))
      if (const auto dtype = parse_dtype(at.string().value_or(""))) a.stored = dtype;
}

void read_parts(JsonObject& config, const ConfigFamily& family, Architecture& a) {
  a.norm = family.norm;
  a.norms = family.norms;
  a.gated = family.gated;
  a.activation = family.activation;
  a.positions = family.positions;
  a.qk_norm = family.qk_norm;
  a.qkv_bias = has(config, family.qkv_bias);
  a.out_bias = has(config, family.out_bias);
  a.mlp_bias = has(config, family.mlp_bias);
}

void check_heads(JsonObject& config, const Architecture& a) {
  if (a.heads > 0 && a.kv_heads > 0 && a.heads % a.kv_heads != 0)
    indivisible(config, fmt::format("{} heads over {} key-value heads", a.heads, a.kv_heads),
                kKvHeads, "a multiple of the key-value heads");
}

// A gated layer has three matrices where a plain one has two, so its width is chosen near 8/3 of
// the hidden size; exactly 4 says that somebody wrote the file by rule of thumb.
void remark_width(Architecture& a) {
  if (a.family == "llama" && a.gated && a.ffn == 4 * a.hidden)
    a.remarks.push_back(
        {"implausible-width",
         fmt::format("the gated feed-forward layers are {} wide, exactly 4 x {}: published models "
                     "of this family are near 8/3 or 7/2 times the hidden size; compare with the "
                     "original config",
                     a.ffn, a.hidden)});
}

void remark_code(JsonObject& config, Architecture& a) {
  if (config.nullable("auto_map"))
    a.remarks.push_back(
        {"remote-code",
         fmt::format(
             "\"auto_map\" names code that comes with the model: it is read as the class of "
             "{} would read it, and what that code does otherwise is not known",
             s2t::quoted(a.family))});
}

void remark_prediction_layers(JsonObject& config, Architecture& a) {
  const JsonCursor layers = config.nullable("num_nextn_predict_layers");
  if (layers.integer(0, kMostLayers).value_or(0) == 0) return;
  a.remarks.push_back({"prediction-layers",
                       fmt::format("{} layer(s) that predict further tokens "
                                   "(\"num_nextn_predict_layers\") are neither counted nor trained "
                                   "in the step that is predicted",
                                   layers.excerpt())});
}

std::string name_of(JsonObject& config, const std::string& file) {
  for (const char* key : {"_name_or_path", "name"})
    if (const JsonCursor at = config.nullable(key); at.is(JsonKind::string) && at.string() != "")
      return *at.string();
  const std::string stem = std::filesystem::path(file).stem().string();
  return stem.empty() || stem[0] == '<' ? "config" : stem;
}

void read_text(JsonObject& config, const ConfigFamily& family, Architecture& a) {
  config.ignore_rest();
  read_stored(config, a);
  read_widths(config, family, a);
  read_heads(config, family, a);
  read_parts(config, family, a);
  if (family.own) family.own(config, a);
  check_heads(config, a);
  remark_width(a);
  remark_prediction_layers(config, a);
}

}  // namespace

bool is_hf_config(const JsonCursor& root) {
  if (!root.is(JsonKind::object)) return false;
  JsonObject object(root);
  object.ignore_rest();
  return !object.optional("schema") &&
         (object.optional("model_type") || object.optional("architectures"));
}

std::optional<Architecture> read_hf_config(const JsonCursor& root) {
  JsonObject config = root.object();
  config.ignore_rest();
  const ConfigFamily* family = find_family(config);
  if (!family) return std::nullopt;
  Architecture a;
  a.family = family->type;
  a.name = name_of(config, root.sink().file());
  a.tied = config.nullable("tie_word_embeddings").boolean().value_or(family->tied);
  remark_code(config, a);
  read_stored(config, a);
  if (const JsonCursor nested = config.nullable("text_config")) {
    JsonObject text = nested.object();
    if (const auto tied = text.nullable("tie_word_embeddings").boolean()) a.tied = *tied;
    read_text(text, *family, a);
  } else {
    read_text(config, *family, a);
  }
  if (root.sink().any()) return std::nullopt;
  return a;
}

Architecture parse_hf_config(std::string_view text, const std::string& file) {
  Diagnostics sink(file);
  const std::optional<JsonDocument> document = parse_json(text, sink);
  std::optional<Architecture> architecture;
  if (document) architecture = read_hf_config(JsonCursor(*document, sink));
  sink.throw_if_any();
  return std::move(architecture).value();
}

}  // namespace s2t
