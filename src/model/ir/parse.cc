// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "base/printable.h"
#include "base/prng.h"
#include "model/ir/text.h"

namespace quern::model::ir {
namespace {

constexpr int kDeepestBody = 4;
constexpr std::string_view kEndOfName = "(){}[],=\"@#";

class GraphParser {
 public:
  explicit GraphParser(std::string_view text) : text_(text) {}

  Result<ParsedGraph> parse() {
    const bool is_read = graph() && (skip_space(), at_ == text_.size() || fail("something follows the graph"));
    if (!is_read) {
      const auto line =
          1 + std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(std::min(at_, text_.size())), '\n');
      return invalid(fmt::format("graph: line {}: {}; see model/ir/text.h", line, problem_));
    }
    return std::move(out_);
  }

 private:
  bool fail(std::string_view problem) {
    if (problem_.empty()) problem_ = problem;
    return false;
  }
  void skip_space() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (text_[at_] == ' ' || text_[at_] == '\n')
        ++at_;
      else
        break;
    }
  }
  bool sees(std::string_view token) {
    skip_space();
    return text_.substr(at_, token.size()) == token;
  }
  bool take(std::string_view token) {
    if (!sees(token)) return false;
    at_ += token.size();
    return true;
  }
  bool need(std::string_view token) { return take(token) || fail(fmt::format("'{}' is missing", token)); }

  bool name(std::string& out) {
    out.clear();
    if (take("\"")) {
      for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
        if (text_[at_] == '\\') ++at_;
        if (at_ < text_.size()) out += text_[at_];
      }
      return need("\"");
    }
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] > ' ' && kEndOfName.find(text_[at_]) == kEndOfName.npos) ++at_;
    // A colon ends a name that a type follows.
    if (at_ > begin && text_[at_ - 1] == ':') --at_;
    out = text_.substr(begin, at_ - begin);
    return !out.empty() || fail("a name is missing");
  }

  // Text up to one of `ends`, outside of parentheses.
  std::string_view until(std::string_view ends) {
    skip_space();
    const size_t begin = at_;
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (depth == 0 && ends.find(c) != ends.npos) break;
      depth += (c == '(') - (c == ')');
    }
    size_t end = at_;
    while (end > begin && text_[end - 1] == ' ') --end;
    return text_.substr(begin, end - begin);
  }

  bool dim(std::string_view text, Dim& out) {
    auto parsed = Dim::parse(text, bounds_);
    if (!parsed.ok()) return fail(parsed.error().text);
    out = *parsed;
    return true;
  }

  bool type(Type& out) {
    const std::string_view word = until("[");
    const auto dtype = dtype_of(word);
    if (!dtype) return fail(fmt::format("'{}' is no dtype", printable(word)));
    out.dtype = *dtype;
    if (!need("[")) return false;
    while (!take("]")) {
      Dim size;
      if (!dim(until(",]"), size)) return false;
      out.dims.push_back(size);
      if (!take(",") && !sees("]")) return fail("']' is missing");
    }
    return true;
  }

  bool value(std::string_view name, ValueId& id, bool is_made) {
    if (const auto found = ids_.find(std::string(name)); found != ids_.end()) {
      id = found->second;
      return !is_made || fail(fmt::format("'{}' is made twice", printable(name)));
    }
    if (!is_made) return fail(fmt::format("'{}' is used before it is made", printable(name)));
    id = out_.graph.add({.name = std::string(name)});
    out_.has_type.push_back(false);
    ids_.emplace(name, id);
    return true;
  }
  // `name` or `name: type`
  bool made_value(ValueId& id) {
    std::string made;
    if (!name(made)) return false;
    if (made == "_") return fail("an output needs a name");
    if (!value(made, id, true)) return false;
    if (!take(":")) return true;
    out_.has_type[id] = true;
    return type(out_.graph.values[id].type);
  }

  bool number(std::string_view text, double& out) {
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), out);
    return (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size()) || fail("not a number");
  }
  static bool is_real(std::string_view text) {
    const std::string_view digits = text.substr(text.starts_with('-'));
    if (digits == "inf" || digits == "nan") return true;
    return !digits.empty() && digits[0] >= '0' && digits[0] <= '9' && digits.find_first_of(".e") != digits.npos;
  }

  bool attribute(Attribute& out) {
    if (take("\"")) {
      const size_t end = std::min(text_.find('"', at_), text_.size());
      out = std::string(text_.substr(at_, end - at_));
      at_ = end;
      return need("\"");
    }
    if (!take("[")) {
      const std::string_view text = until(",}");
      if (!is_real(text)) {
        Dim whole;
        return dim(text, whole) && (out = whole, true);
      }
      double real = 0;
      return number(text, real) && (out = real, true);
    }
    std::vector<std::string_view> items;
    while (!take("]")) {
      items.push_back(until(",]"));
      if (!take(",") && !sees("]")) return fail("']' is missing");
    }
    if (std::any_of(items.begin(), items.end(), is_real)) {
      std::vector<double> reals(items.size());
      for (size_t i = 0; i < items.size(); ++i)
        if (!number(items[i], reals[i])) return false;
      return out = std::move(reals), true;
    }
    Dims dims(items.size());
    for (size_t i = 0; i < items.size(); ++i)
      if (!dim(items[i], dims[i])) return false;
    return out = std::move(dims), true;
  }
  bool attributes(Attributes& out) {
    if (!take("{")) return true;
    while (!take("}")) {
      std::string key;
      Attribute value;
      if (!name(key) || !need("=") || !attribute(value)) return false;
      out.set(key, std::move(value));
      if (!take(",") && !sees("}")) return fail("'}' is missing");
    }
    return true;
  }

  // The elements of a constant whose type is stated.
  bool constant(Value& made, const Attributes& attributes) {
    const auto sizes = fixed_of(made.type.dims);
    if (!sizes || !elements_of(*sizes) || *elements_of(*sizes) > (1 << 24)) return fail("a constant has no such sizes");
    Tensor tensor = Tensor::zeros(made.type.dtype, *sizes);
    const Attribute* given = attributes.begin() == attributes.end() ? nullptr : &attributes.begin()->second;
    const auto real_of = [&](size_t i) {
      if (const auto* real = std::get_if<double>(given)) return *real;
      if (const auto* whole = std::get_if<Dim>(given))
        return static_cast<double>(whole->is_fixed() ? whole->fixed() : 0);
      if (const auto* reals = std::get_if<std::vector<double>>(given)) return i < reals->size() ? (*reals)[i] : 0;
      if (const auto* dims = std::get_if<Dims>(given))
        return i < dims->size() && (*dims)[i].is_fixed() ? static_cast<double>((*dims)[i].fixed()) : 0;
      return 0.0;
    };
    if (!given) return fail("a constant states values, fill or random");
    const std::string& how = attributes.begin()->first;
    if (how != "values" && how != "fill" && how != "random")
      return fail(how == "hash" ? "a constant that is written as a hash cannot be read"
                                : "a constant states values, fill or random");
    Prng prng(static_cast<uint64_t>(real_of(0)));
    for (size_t i = 0; i < tensor.elements(); ++i) {
      double element = real_of(how == "values" ? i : 0);
      if (how == "random")
        element = is_float(made.type.dtype) ? prng.uniform() * 2 - 1
                                            : static_cast<double>(prng.below(made.type.dtype == Dtype::kBool ? 2 : 10));
      const Tensor one = Tensor::number(made.type.dtype, element);
      std::copy(one.bytes().begin(), one.bytes().end(),
                tensor.write_bytes().begin() + static_cast<ptrdiff_t>(i * one.bytes().size()));
    }
    made.constant = std::move(tensor);
    return true;
  }

  bool statement() {
    Node node;
    do {
      ValueId id = kNone;
      if (!made_value(id)) return false;
      node.outputs.push_back(id);
    } while (take(","));
    if (!need("=") || !name(node.op)) return false;
    if (node.op == "constant") {
      if (!attributes(node.attributes)) return false;
      if (node.outputs.size() != 1 || !out_.has_type[node.outputs[0]])
        return fail("a constant has one name and a type");
      return constant(out_.graph.values[node.outputs[0]], node.attributes);
    }
    if (!need("(")) return false;
    while (!take(")")) {
      std::string read;
      ValueId id = kNone;
      if (!name(read) || (read != "_" && !value(read, id, false))) return false;
      node.inputs.push_back(id);
      if (!take(",") && !sees(")")) return fail("')' is missing");
    }
    if (!attributes(node.attributes)) return false;
    if (take("with ") && !body(node)) return false;
    while (take("@"))
      if (!name(node.origins.emplace_back())) return false;
    out_.graph.nodes.push_back(std::move(node));
    return true;
  }

  // A graph of its own, with names of its own.
  bool body(Node& node) {
    if (++depth_ > kDeepestBody) return fail("bodies are nested too deep");
    ParsedGraph outer = std::exchange(out_, {});
    auto outer_ids = std::exchange(ids_, {});
    if (!graph()) return false;
    if (out_.graph.outputs.size() != 1) return fail("a body has one output");
    if (std::find(out_.has_type.begin(), out_.has_type.end(), false) != out_.has_type.end())
      return fail("a body states all its types");
    node.body = std::make_shared<const Graph>(std::move(out_.graph));
    out_ = std::move(outer);
    ids_ = std::move(outer_ids);
    --depth_;
    return true;
  }

  bool graph() {
    while (take("dim ")) {
      FreeDim free;
      double low = 0, high = 0;
      if (!name(free.name) || !need("in") || !number(until("."), low) || !need("..") || !number(until("\n"), high))
        return false;
      free.low = static_cast<int64_t>(low);
      free.high = static_cast<int64_t>(high);
      bounds_[free.name] = {free.low, free.high};
      out_.graph.dims.push_back(free);
    }
    if (!need("graph") || !need("(")) return false;
    while (!take(")")) {
      ValueId id = kNone;
      if (!made_value(id)) return false;
      if (!out_.has_type[id]) return fail("an input has a name and a type");
      out_.graph.inputs.push_back(id);
      if (!take(",") && !sees(")")) return fail("')' is missing");
    }
    if (!need("{")) return false;
    while (!take("return")) {
      if (take("require ")) {
        Requirement requirement;
        if (!dim(until("="), requirement.a) || !need("==") || !dim(until("\n"), requirement.b)) return false;
        out_.graph.requirements.push_back(std::move(requirement));
      } else if (!statement()) {
        return false;
      }
    }
    while (!sees("}")) {
      Output output;
      std::string read;
      if (!name(output.name)) return false;
      read = output.name;
      if (take("=") && !name(read)) return false;
      if (!value(read, output.value, false)) return false;
      out_.graph.outputs.push_back(std::move(output));
      if (!take(",") && !sees("}")) return fail("'}' is missing");
    }
    return need("}");
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::string problem_;
  ParsedGraph out_;
  Dim::Bounds bounds_;
  std::map<std::string, ValueId, std::less<>> ids_;
};

}  // namespace

Result<ParsedGraph> parse_graph(std::string_view text) { return GraphParser(text).parse(); }

}  // namespace quern::model::ir
