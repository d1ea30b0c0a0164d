// SPDX-License-Identifier: Apache-2.0
#include "server/http/infer_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/basic_parser_impl.hpp>
#include <charconv>

#include "base/suggest.h"
#include "server/tensor_json.h"

// A request is read in two passes over its text. The first one takes everything but the elements of `data`, which it
// only counts: what they mean depends on `datatype` and `shape`, which may come later, and where they go depends on
// the arena, which is asked for once the request is known to be right. The second, only where there is `data`, puts
// the elements into the arena. A tree of the JSON would take 16 bytes and more for each element.

namespace quern::server {
namespace {

namespace json = boost::json;
using Code = json::error_code;
constexpr size_t kMostTensors = kMostBuffers, kMostParameters = 1024;

// What both passes share: strings and numbers in one piece, and the way a mistake ends the parser.
class Events {
 public:
  static constexpr size_t max_object_size = -1, max_array_size = -1, max_key_size = 4096, max_string_size = 65536;

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_comment_part(json::string_view, Code&) { return true; }
  bool on_comment(json::string_view, Code&) { return true; }
  bool on_number_part(json::string_view, Code&) { return true; }  // never: the text is in one piece
  bool on_key_part(json::string_view s, size_t, Code&) { return part(s); }
  bool on_string_part(json::string_view s, size_t, Code&) { return part(s); }

  std::optional<Error> error;

 protected:
  bool part(json::string_view s) {
    text_.append(s.data(), s.size());
    has_part_ = true;
    return true;
  }
  std::string_view whole(json::string_view s) {
    if (!has_part_) return {s.data(), s.size()};
    text_.append(s.data(), s.size());
    whole_.swap(text_);
    text_.clear();
    has_part_ = false;
    return whole_;
  }
  bool stop(Code& ec, Error mistake) {
    error = std::move(mistake);
    ec = json::error::incomplete;  // any: `error` is what counts
    return false;
  }

 private:
  std::string text_, whole_;
  bool has_part_ = false;
};

enum class Key : uint8_t { kNone, kId, kParameters, kInputs, kOutputs, kName, kDatatype, kShape, kData };
constexpr std::array<std::string_view, 9> kKeyNames = {"",     "id",       "parameters", "inputs", "outputs",
                                                       "name", "datatype", "shape",      "data"};

// The parameters of an input and of an output, and what each is.
struct TensorParameter {
  std::string_view name, meaning;
};
constexpr std::array<TensorParameter, 2> kInputParameters = {
    {{"binary_data_size", "a number of bytes"}, {"object", "the id of an object, a string"}}};
constexpr std::array<TensorParameter, 3> kOutputParameters = {
    {{"binary_data", "true or false"}, {"object", "true or false"}, {"lease", "a length of time, as \"60s\""}}};

// "-0": Boost.JSON makes an integer of it.
bool is_minus_zero(int64_t value, json::string_view text) { return value == 0 && text.starts_with('-'); }

class RequestReader : public Events {
 public:
  explicit RequestReader(InferRequest& into) : request_(into) {}

  bool on_object_begin(Code& ec) {
    switch (at_) {
      case At::kStart:
        return enter(At::kTop);
      case At::kTop:
        if (key_ == Key::kParameters) return enter(At::kParameters);
        break;
      case At::kInputs:
        if (request_.spec.inputs.size() >= kMostTensors) return bad(ec, "more inputs than any function has");
        request_.spec.inputs.emplace_back();
        request_.sources.emplace_back();
        seen_ = 0;
        return enter(At::kInput);
      case At::kInput:
        if (key_ == Key::kParameters) return enter(At::kInputParameters);
        break;
      case At::kOutputs:
        if (request_.outputs.size() >= kMostTensors) return bad(ec, "more outputs than any function has");
        request_.outputs.emplace_back();
        seen_ = 0;
        return enter(At::kOutput);
      case At::kOutput:
        if (key_ == Key::kParameters) return enter(At::kOutputParameters);
        break;
      default:
        break;
    }
    return unexpected(ec, "an object");
  }

  bool on_object_end(size_t, Code& ec) {
    switch (at_) {
      case At::kTop:
        return finish_request(ec);
      case At::kParameters:
        return enter(At::kTop);
      case At::kInput:
        return finish_input(ec) && enter(At::kInputs);
      case At::kInputParameters:
        return enter(At::kInput);
      case At::kOutput:
        return finish_output(ec) && enter(At::kOutputs);
      default:
        return enter(At::kOutput);
    }
  }

  bool on_array_begin(Code& ec) {
    if (at_ == At::kTop && key_ == Key::kInputs) return enter(At::kInputs);
    if (at_ == At::kTop && key_ == Key::kOutputs) {
      request_.selects_outputs = true;
      return enter(At::kOutputs);
    }
    if (at_ == At::kInput && key_ == Key::kShape) return enter(At::kShape);
    if (at_ == At::kInput && key_ == Key::kData) {
      depth_ = 1;
      return enter(At::kData);
    }
    if (at_ == At::kData) {
      ++depth_;
      return true;
    }
    return unexpected(ec, "an array");
  }

  bool on_array_end(size_t, Code&) {
    switch (at_) {
      case At::kInputs:
      case At::kOutputs:
        return enter(At::kTop);
      case At::kData:
        return --depth_ > 0 || enter(At::kInput);
      default:
        return enter(At::kInput);
    }
  }

  bool on_key(json::string_view s, size_t, Code& ec) {
    const std::string_view key = whole(s);
    if (at_ == At::kParameters || at_ == At::kInputParameters || at_ == At::kOutputParameters) {
      parameter_.assign(key);
      return true;
    }
    static const std::vector<std::string> kTop = {"id", "parameters", "inputs", "outputs"},
                                          kInput = {"name", "datatype", "shape", "parameters", "data"},
                                          kOutput = {"name", "parameters"};
    const auto& known = at_ == At::kTop ? kTop : at_ == At::kInput ? kInput : kOutput;
    key_ = Key::kNone;
    for (size_t i = 1; i < kKeyNames.size(); ++i)
      if (kKeyNames[i] == key && std::find(known.begin(), known.end(), key) != known.end()) key_ = static_cast<Key>(i);
    if (key_ == Key::kNone)
      return bad(ec, fmt::format("unknown key \"{}\"{}", key.substr(0, 64), did_you_mean(key, known)));
    uint32_t& seen = at_ == At::kTop ? seen_top_ : seen_;
    const uint32_t bit = 1u << static_cast<unsigned>(key_);
    if (seen & bit) return bad(ec, fmt::format("\"{}\" is given twice", key));
    seen |= bit;
    return true;
  }

  bool on_string(json::string_view s, size_t, Code& ec) {
    const std::string_view text = whole(s);
    switch (at_) {
      case At::kTop:
        if (key_ != Key::kId) break;
        request_.id.emplace(text);
        return true;
      case At::kParameters:
        return set_parameter(ec, std::string(text));
      case At::kInputParameters:
        if (parameter_ != "object") break;
        if (text.empty()) return bad(ec, "object is empty; it is the id of an object");
        request_.sources.back().object.assign(text);
        return true;
      case At::kOutputParameters:
        if (parameter_ != "lease") break;
        return set_lease(ec, text);
      case At::kInput:
        if (key_ == Key::kName) return set_name(ec, request_.spec.inputs.back().name, text);
        if (key_ == Key::kDatatype) return set_datatype(ec, text);
        break;
      case At::kOutput:
        if (key_ == Key::kName) return set_name(ec, request_.outputs.back().name, text);
        break;
      case At::kData:
        return bad(ec, "data has a string; BYTES tensors are not taken, only numbers and booleans");
      default:
        break;
    }
    return unexpected(ec, "a string");
  }

  bool on_int64(int64_t value, json::string_view text, Code& ec) {
    switch (at_) {
      case At::kData:
        return ++request_.sources.back().data_elements, true;
      case At::kShape: {
        Shape& shape = request_.spec.inputs.back().shape;
        if (value < 0) return bad(ec, fmt::format("shape has {}; sizes are not negative", value));
        if (shape.size() >= 2 * kMostRank) return bad(ec, "shape has more dimensions than any function takes");
        shape.push_back(value);
        return true;
      }
      case At::kParameters:
        // As an integer, -0 would lose its sign; a param of an integer dtype takes it as 0.
        if (is_minus_zero(value, text) && !is_reserved_parameter(parameter_)) return set_parameter(ec, -0.0);
        return set_parameter(ec, value);
      case At::kInputParameters:
        if (parameter_ != "binary_data_size") return unexpected(ec, "a number");
        if (value < 0) return bad(ec, fmt::format("binary_data_size is {}; it is a number of bytes", value));
        request_.sources.back().binary_bytes = static_cast<uint64_t>(value);
        return true;
      default:
        return unexpected(ec, "a number");
    }
  }
  bool on_uint64(uint64_t value, json::string_view, Code& ec) {
    if (at_ == At::kData) return ++request_.sources.back().data_elements, true;
    if (at_ == At::kParameters) return set_parameter(ec, value);
    return bad(ec, fmt::format("{} is too large", value));
  }
  bool on_double(double value, json::string_view text, Code& ec) {
    if (at_ == At::kData) return ++request_.sources.back().data_elements, true;
    if (at_ == At::kParameters) {
      // Boost.JSON 1.81 may be off by the last bit; from_chars never is.
      std::from_chars(text.data(), text.data() + text.size(), value);
      return set_parameter(ec, value);
    }
    return unexpected(ec, "a number that is not whole");
  }
  bool on_bool(bool value, Code& ec) {
    switch (at_) {
      case At::kData:
        return ++request_.sources.back().data_elements, true;
      case At::kParameters:
        return set_parameter(ec, value);
      case At::kOutputParameters:
        if (parameter_ == "binary_data") return request_.outputs.back().is_binary = value, true;
        if (parameter_ == "object") return request_.outputs.back().stays = value, true;
        return unexpected(ec, value ? "true" : "false");
      default:
        return unexpected(ec, value ? "true" : "false");
    }
  }
  bool on_null(Code& ec) { return unexpected(ec, "null"); }

 private:
  enum class At : uint8_t {
    kStart,
    kTop,
    kParameters,
    kInputs,
    kInput,
    kInputParameters,
    kShape,
    kData,
    kOutputs,
    kOutput,
    kOutputParameters,
  };

  bool enter(At at) {
    at_ = at;
    return true;
  }

  // "input 2 (x)": where we are, for messages.
  std::string place() const {
    switch (at_) {
      case At::kInput:
      case At::kInputParameters:
      case At::kShape:
      case At::kData: {
        const std::string& name = request_.spec.inputs.back().name;
        return name.empty() ? fmt::format("inputs[{}]", request_.spec.inputs.size() - 1) : "input " + name;
      }
      case At::kOutput:
      case At::kOutputParameters: {
        const std::string& name = request_.outputs.back().name;
        return name.empty() ? fmt::format("outputs[{}]", request_.outputs.size() - 1) : "output " + name;
      }
      case At::kParameters:
        return "parameters";
      default:
        return "request";
    }
  }
  bool bad(Code& ec, const std::string& text) { return stop(ec, invalid(place() + ": " + text)); }
  bool unexpected(Code& ec, std::string_view what) {
    switch (at_) {
      case At::kStart:
        return bad(ec, fmt::format("the JSON is {}; it must be an object", what));
      case At::kInputs:
      case At::kOutputs:
        return bad(ec, fmt::format("{} where an object with \"name\" must be", what));
      case At::kShape:
        return bad(ec, fmt::format("shape has {}; it is an array of whole numbers", what));
      case At::kData:
        return bad(ec, fmt::format("data has {}; it takes numbers and booleans", what));
      case At::kParameters:
        return bad(ec, fmt::format("{} is {}; it must be a number, true, false or a string", parameter_, what));
      case At::kInputParameters:
        return misused_parameter(ec, what, kInputParameters);
      case At::kOutputParameters:
        return misused_parameter(ec, what, kOutputParameters);
      default:
        break;
    }
    const std::string_view wanted = key_ == Key::kParameters                                           ? "an object"
                                    : key_ == Key::kId || key_ == Key::kName || key_ == Key::kDatatype ? "a string"
                                                                                                       : "an array";
    return bad(ec, fmt::format("\"{}\" is {}; it must be {}", kKeyNames[static_cast<size_t>(key_)], what, wanted));
  }
  // A parameter of a tensor that there is not, or that is something else than it must be.
  bool misused_parameter(Code& ec, std::string_view what, std::span<const TensorParameter> known) {
    std::vector<std::string> names;
    for (const TensorParameter& one : known) {
      if (one.name == parameter_) return bad(ec, fmt::format("{} is {}; it is {}", one.name, what, one.meaning));
      names.emplace_back(one.name);
    }
    return bad(ec, fmt::format("unknown parameter \"{}\"{}; here there are {}", parameter_.substr(0, 64),
                               did_you_mean(parameter_, names), fmt::join(names, ", ")));
  }

  bool set_lease(Code& ec, std::string_view text) {
    const auto lease = parse_duration(text);
    if (!lease.ok() || lease->ns <= 0 || *lease > daemon::kLongestLease)
      return bad(ec, fmt::format("lease is '{}'; it is a length of time, as \"60s\", and at most {}",
                                 text.substr(0, 64), to_string(daemon::kLongestLease)));
    request_.outputs.back().lease = *lease;
    return true;
  }

  bool set_name(Code& ec, std::string& name, std::string_view text) {
    if (text.empty()) return bad(ec, "\"name\" is empty");
    name.assign(text);
    return true;
  }
  bool set_datatype(Code& ec, std::string_view text) {
    if (text == "BYTES") return bad(ec, "datatype BYTES is not taken; functions have numbers only");
    const auto dtype = dtype_of_protocol(text);
    if (!dtype) {
      std::vector<std::string> known;
      for (int i = 0; i < kDtypes; ++i) known.emplace_back(protocol_name_of(static_cast<Dtype>(i)));
      return bad(ec, fmt::format("unknown datatype \"{}\"{}", text.substr(0, 64), did_you_mean(text, known)));
    }
    request_.spec.inputs.back().dtype = *dtype;
    return true;
  }

  bool set_parameter(Code& ec, ParameterValue value) {
    if (parameter_ == "timeout") {
      const auto timeout = timeout_of(value);
      if (!timeout.ok()) return bad(ec, timeout.error().text);
      request_.options.timeout = *timeout;
      return true;
    }
    if (parameter_ == "priority") {
      const auto* priority = std::get_if<int64_t>(&value);
      if (!priority || *priority < 0 || *priority > 9)
        return bad(ec, "priority must be a whole number from 0 (most urgent) to 9");
      request_.options.priority = static_cast<uint8_t>(*priority);
      return true;
    }
    if (parameter_ == "binary_data_output") {
      const auto* wanted = std::get_if<bool>(&value);
      if (!wanted) return bad(ec, "binary_data_output must be true or false");
      request_.binary_data_output = *wanted;
      return true;
    }
    if (parameter_ == "setup") {
      const auto* wanted = std::get_if<bool>(&value);
      if (!wanted) return bad(ec, "setup must be true or false");
      request_.tells_setup = *wanted;
      return true;
    }
    if (request_.spec.parameters.size() >= kMostParameters) return bad(ec, "more parameters than any function has");
    if (!request_.spec.parameters.emplace(parameter_, std::move(value)).second)
      return bad(ec, fmt::format("{} is given twice", parameter_));
    return true;
  }

  bool finish_input(Code& ec) {
    const TensorSpec& spec = request_.spec.inputs.back();
    const InputSource& source = request_.sources.back();
    const auto has = [&](Key key) { return (seen_ & 1u << static_cast<unsigned>(key)) != 0; };
    for (const Key key : {Key::kName, Key::kDatatype, Key::kShape})
      if (!has(key)) return bad(ec, fmt::format("\"{}\" is missing", kKeyNames[static_cast<size_t>(key)]));
    if (has(Key::kData) && source.binary_bytes) return bad(ec, "both \"data\" and binary_data_size; give one");
    if (!source.object.empty() && (has(Key::kData) || source.binary_bytes))
      return bad(ec,
                 fmt::format("both object and {}; give one", source.binary_bytes ? "binary_data_size" : "\"data\""));
    if (!source.is_json()) return true;
    if (!has(Key::kData)) return bad(ec, "no \"data\", and neither binary_data_size nor object in its parameters");
    if (spec.dtype == Dtype::kFp16 || spec.dtype == Dtype::kBf16)
      return bad(ec, fmt::format("{} is taken as binary only; send binary_data_size and the bytes behind the JSON",
                                 protocol_name_of(spec.dtype)));
    const auto elements = elements_of(spec.shape);
    if (!elements) return bad(ec, fmt::format("shape {} is too large", show_shape(spec.shape)));
    if (*elements != source.data_elements)
      return bad(ec, fmt::format("data has {} elements, but shape {} has {}", source.data_elements,
                                 show_shape(spec.shape), *elements));
    return true;
  }

  bool finish_output(Code& ec) {
    const OutputWish& wish = request_.outputs.back();
    if (wish.name.empty()) return bad(ec, "\"name\" is missing");
    if (wish.lease && !wish.stays) return bad(ec, "a lease without \"object\": true; only what stays has one");
    if (wish.stays && wish.is_binary.value_or(false)) return bad(ec, "both object and binary_data; give one");
    return true;
  }

  bool finish_request(Code& ec) {
    if (!(seen_top_ & 1u << static_cast<unsigned>(Key::kInputs))) return bad(ec, "\"inputs\" is missing");
    return enter(At::kStart);
  }

  InferRequest& request_;
  At at_ = At::kStart;
  Key key_ = Key::kNone;
  int depth_ = 0;
  uint32_t seen_top_ = 0, seen_ = 0;
  std::string parameter_;
};

// Runs over what RequestReader took, so only levels are counted: the document is 1, `inputs` 2, an input 3, its
// `data` 4 and deeper.
class DataReader : public Events {
 public:
  DataReader(const InferRequest& request, std::span<daemon::CallTensor> tensors)
      : request_(request), tensors_(tensors) {}

  bool on_object_begin(Code&) {
    if (++level_ == 3 && in_inputs_) ++index_;
    return true;
  }
  bool on_object_end(size_t, Code&) { return --level_, true; }
  bool on_array_begin(Code& ec) {
    ++level_;
    if (level_ == 4 && in_inputs_ && in_data_) {
      daemon::CallTensor& tensor = tensors_[index_ - 1];
      const TensorSpec& spec = request_.spec.inputs[index_ - 1];
      reader_.emplace(spec.name, spec.dtype, spec.shape, tensor.bytes);
    }
    return !reader_ || reader_->begin_array() || mistake(ec);
  }
  bool on_array_end(size_t, Code& ec) {
    --level_;
    if (reader_ && !reader_->end_array()) return mistake(ec);
    if (level_ == 3) reader_.reset();
    return true;
  }
  bool on_key(json::string_view s, size_t, Code&) {
    const std::string_view key = whole(s);
    if (level_ == 1) in_inputs_ = key == "inputs";
    if (level_ == 3) in_data_ = key == "data";
    return true;
  }
  bool on_string(json::string_view s, size_t, Code& ec) {
    whole(s);
    return !reader_ || reader_->put_other("a string") || mistake(ec);
  }
  bool on_int64(int64_t v, json::string_view s, Code& ec) {
    if (!reader_) return true;
    return (is_minus_zero(v, s) ? reader_->put_real("-0.0") : reader_->put_int64(v)) || mistake(ec);
  }
  bool on_uint64(uint64_t v, json::string_view, Code& ec) { return !reader_ || reader_->put_uint64(v) || mistake(ec); }
  bool on_double(double, json::string_view s, Code& ec) {
    return !reader_ || reader_->put_real({s.data(), s.size()}) || mistake(ec);
  }
  bool on_bool(bool v, Code& ec) { return !reader_ || reader_->put_bool(v) || mistake(ec); }
  bool on_null(Code& ec) { return !reader_ || reader_->put_other("null") || mistake(ec); }

 private:
  bool mistake(Code& ec) {
    return stop(ec, reader_->error().value_or(internal("the data of an input changed between two readings")));
  }

  const InferRequest& request_;
  std::span<daemon::CallTensor> tensors_;
  int level_ = 0;
  size_t index_ = 0;
  bool in_inputs_ = false, in_data_ = false;
  std::optional<TensorReader> reader_;
};

template <class Reader, class... A>
Status run(std::string_view text, A&&... arguments) {
  json::basic_parser<Reader> parser(json::parse_options{}, std::forward<A>(arguments)...);
  Code ec;
  const size_t used = parser.write_some(false, text.data(), text.size(), ec);
  if (parser.handler().error) return *std::move(parser.handler().error);
  if (!ec && used < text.size()) return invalid(fmt::format("request: JSON ends at byte {} of {}", used, text.size()));
  if (ec) return invalid(fmt::format("request: no JSON at byte {} of {}: {}", used, text.size(), ec.message()));
  return {};
}

}  // namespace

bool InferRequest::has_json_data() const {
  return std::any_of(sources.begin(), sources.end(), [](const InputSource& s) { return s.is_json(); });
}

bool InferRequest::names_objects() const {
  return std::any_of(sources.begin(), sources.end(), [](const InputSource& s) { return !s.object.empty(); });
}

void InferRequest::clear() {
  id.reset();
  spec.inputs.clear();
  spec.parameters.clear();
  sources.clear();
  options = {};
  binary_data_output = selects_outputs = tells_setup = false;
  outputs.clear();
}

Status parse_infer(std::string_view text, InferRequest& into) {
  into.clear();
  return run<RequestReader>(text, into);
}

Status read_tensors(std::string_view text, const InferRequest& request, std::span<daemon::CallTensor> tensors) {
  QUERN_CHECK(tensors.size() == request.spec.inputs.size(), "one tensor per input");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& spec = request.spec.inputs[i];
    if (!request.sources[i].is_json()) continue;
    QUERN_CHECK(tensors[i].bytes.size() == request.sources[i].data_elements * size_of(spec.dtype),
                "input " + spec.name + ": the arena has another size than the request");
  }
  return run<DataReader>(text, request, tensors);
}

}  // namespace quern::server
