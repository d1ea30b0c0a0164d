// SPDX-License-Identifier: Apache-2.0
//
// Field numbers are those of onnx.proto. Each message has one function: a loop over its fields with a switch. The
// recursion is graph -> node -> attribute -> graph, and `graph_depth` bounds it.
#include "model/onnx/read.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "base/printable.h"

namespace quern::model::onnx {
namespace {

class Reader {
 public:
  Reader(Span file, const Limits& limits) : file_(file), limits_(limits) {}

  Status model(Span bytes, Model& out) {
    return each(bytes, "a model", [&](const Field& f) -> Status {
      switch (f.number) {
        case 1:
          return whole(f, "ir_version", out.ir_version);
        case 2:
          return text(f, "producer_name", out.producer);
        case 7:
          if (std::exchange(has_graph_, true)) return problem(f.bytes, "a second graph", "write one graph");
          return message(f, "graph", [&] { return graph(f.bytes, out.graph); });
        case 8:
          return message(f, "opset_import", [&] { return add(out.opsets, f.bytes, &Reader::opset); });
        case 25:
          return message(f, "functions", [&] { return add(out.functions, f.bytes, &Reader::function); });
        default:
          return {};
      }
    });
  }
  bool has_graph() const { return has_graph_; }

  Status tensor(Span bytes, Tensor& out) {
    out.message = bytes;
    QUERN_TRY(each(bytes, "a tensor", [&](const Field& f) -> Status {
      switch (f.number) {
        case 1:
          return wholes(f, "dims", out.dims);
        case 2: {
          int64_t type = 0;
          QUERN_TRY(whole(f, "data_type", type));
          out.data_type = type < 0 || type > 1'000'000 ? -1 : static_cast<int32_t>(type);
          return {};
        }
        case 3:
          return problem(f.bytes, "a tensor in segments", "write the tensor in one piece");
        case 8:
          return name(f, out.name);
        case 13:
          return message(f, "external_data", [&] { return add(out.external, f.bytes, &Reader::entry); });
        case 14: {
          int64_t location = 0;
          QUERN_TRY(whole(f, "data_location", location));
          out.is_external = location == 1;
          return {};
        }
        default:
          return {};
      }
    }));
    for (const int64_t size : out.dims)
      if (size < 0)
        return problem(bytes, fmt::format("tensor '{}' has a size of {}", printable(out.name), size),
                       "write sizes of 0 and more");
    return rank(out.dims.size(), out.name);
  }

 private:
  // Reads every field of a message. The first error of a field, or of the bytes, ends the loop.
  template <class Take>
  Status each(Span bytes, std::string_view what, Take take) {
    WireReader reader(bytes);
    for (Field field; reader.next(field);) QUERN_TRY(take(field));
    if (reader.ok()) return {};
    return invalid(fmt::format("onnx: at byte {}, in {}: {}; the file is damaged, cut off, or no ONNX model",
                               offset_of(bytes) + reader.offset(), what, reader.problem()));
  }
  size_t offset_of(Span bytes) const { return bytes.empty() ? 0 : static_cast<size_t>(bytes.data() - file_.data()); }
  Error problem(Span bytes, std::string_view what, std::string_view remedy) const {
    return invalid(fmt::format("onnx: at byte {}: {}; {}", offset_of(bytes), what, remedy));
  }
  Error wrong_wire(const Field& f, std::string_view what) const {
    return invalid(fmt::format("onnx: field {} ({}) has wire type {}; the file is damaged or no ONNX model", f.number,
                               what, static_cast<int>(f.wire)));
  }
  Status rank(size_t dims, std::string_view of) const {
    if (dims <= limits_.rank) return {};
    return exhausted(fmt::format("onnx: tensor '{}' has {} dimensions; at most {} are supported", printable(of), dims,
                                 limits_.rank));
  }
  // Every element that a file makes us keep counts, by the size of our struct.
  Status charge(size_t bytes) {
    used_bytes_ += bytes;
    if (used_bytes_ <= limits_.memory_bytes) return {};
    return exhausted(
        fmt::format("onnx: the graph takes more than {} bytes in memory; write it with fewer nodes, "
                    "attributes and names",
                    limits_.memory_bytes));
  }
  template <class T>
  Status add(std::vector<T>& list, Span bytes, Status (Reader::*read)(Span, T&)) {
    QUERN_TRY(charge(sizeof(T)));
    return (this->*read)(bytes, list.emplace_back());
  }

  Status whole(const Field& f, std::string_view what, int64_t& out) const {
    if (f.wire != Wire::kVarint) return wrong_wire(f, what);
    out = static_cast<int64_t>(f.value);
    return {};
  }
  Status wholes(const Field& f, std::string_view what, std::vector<int64_t>& out) {
    Status status;
    const bool all = each_varint(f, [&](uint64_t value) {
      if (status = charge(sizeof(int64_t)); !status.ok()) return false;
      out.push_back(static_cast<int64_t>(value));
      return true;
    });
    if (!status.ok() || all) return status;
    return wrong_wire(f, what);
  }
  Status reals(const Field& f, std::string_view what, std::vector<float>& out) {
    Status status;
    const bool all = each_fixed<uint32_t>(f, [&](uint32_t bits) {
      if (status = charge(sizeof(float)); !status.ok()) return false;
      out.push_back(std::bit_cast<float>(bits));
      return true;
    });
    if (!status.ok() || all) return status;
    return wrong_wire(f, what);
  }
  Status text(const Field& f, std::string_view what, std::string_view& out) const {
    if (f.wire != Wire::kBytes) return wrong_wire(f, what);
    out = f.text();
    return {};
  }
  Status name(const Field& f, std::string_view& out) const {
    QUERN_TRY(text(f, "a name", out));
    if (out.size() <= limits_.name_bytes) return {};
    return exhausted(fmt::format("onnx: the name '{}…' has {} bytes; at most {} are read", printable(out.substr(0, 32)),
                                 out.size(), limits_.name_bytes));
  }
  Status names(const Field& f, std::vector<std::string_view>& out) {
    QUERN_TRY(charge(sizeof(std::string_view)));
    return name(f, out.emplace_back());
  }
  template <class Read>
  Status message(const Field& f, std::string_view what, Read read) const {
    if (f.wire != Wire::kBytes) return wrong_wire(f, what);
    return read();
  }

  Status entry(Span bytes, std::pair<std::string_view, std::string_view>& out) {
    return each(bytes, "an entry of external_data", [&](const Field& f) -> Status {
      if (f.number == 1) return name(f, out.first);
      if (f.number == 2) return name(f, out.second);
      return {};
    });
  }

  Status opset(Span bytes, Opset& out) {
    QUERN_TRY(each(bytes, "an opset", [&](const Field& f) -> Status {
      if (f.number == 1) return name(f, out.domain);
      if (f.number == 2) return whole(f, "version", out.version);
      return {};
    }));
    if (out.domain == "ai.onnx") out.domain = "";
    return {};
  }

  Status tensor_of(Span bytes, Tensor& out) { return tensor(bytes, out); }

  Status graph(Span bytes, Graph& out) {
    if (++depth_ > limits_.graph_depth)
      return exhausted(
          fmt::format("onnx: graphs are nested more than {} deep; flatten the model", limits_.graph_depth));
    QUERN_TRY(each(bytes, "a graph", [&](const Field& f) -> Status {
      switch (f.number) {
        case 1:
          return message(f, "node", [&] { return add(out.nodes, f.bytes, &Reader::node); });
        case 2:
          return name(f, out.name);
        case 5:
          return message(f, "initializer", [&] { return add(out.initialisers, f.bytes, &Reader::tensor_of); });
        case 11:
          return message(f, "input", [&] { return add(out.inputs, f.bytes, &Reader::value); });
        case 12:
          return message(f, "output", [&] { return add(out.outputs, f.bytes, &Reader::value); });
        case 13:
          return message(f, "value_info", [&] { return add(out.values, f.bytes, &Reader::value); });
        case 15:
          out.has_sparse_initialisers = true;
          return {};
        default:
          return {};
      }
    }));
    --depth_;
    return {};
  }

  Status node(Span bytes, Node& out) {
    if (++nodes_ > limits_.nodes)
      return exhausted(fmt::format("onnx: more than {} nodes; split the model", limits_.nodes));
    QUERN_TRY(each(bytes, "a node", [&](const Field& f) -> Status {
      switch (f.number) {
        case 1:
          return names(f, out.inputs);
        case 2:
          return names(f, out.outputs);
        case 3:
          return name(f, out.name);
        case 4:
          return name(f, out.op);
        case 5:
          return message(f, "attribute", [&] { return add(out.attributes, f.bytes, &Reader::attribute); });
        case 7:
          return name(f, out.domain);
        default:
          return {};
      }
    }));
    if (out.domain == "ai.onnx") out.domain = "";
    return {};
  }

  Status attribute(Span bytes, Attribute& out) {
    QUERN_TRY(each(bytes, "an attribute", [&](const Field& f) -> Status {
      switch (f.number) {
        case 1:
          return name(f, out.name);
        case 2:
          if (f.wire != Wire::kFixed32) return wrong_wire(f, "f");
          out.real = std::bit_cast<float>(static_cast<uint32_t>(f.value));
          return {};
        case 3:
          return whole(f, "i", out.whole);
        case 4:
          return text(f, "s", out.text);
        case 5:
        case 10:
          return message(f, "tensors", [&] { return add(out.tensors, f.bytes, &Reader::tensor_of); });
        case 6:
        case 11:
          return message(f, "graphs", [&] { return add(out.graphs, f.bytes, &Reader::graph); });
        case 7:
          return reals(f, "floats", out.reals);
        case 8:
          return wholes(f, "ints", out.wholes);
        case 9:
          QUERN_TRY(charge(sizeof(std::string_view)));
          return text(f, "strings", out.texts.emplace_back());
        case 20: {
          int64_t type = 0;
          QUERN_TRY(whole(f, "type", type));
          if (type < 0 || type > static_cast<int64_t>(Attribute::Type::kTypeProtos))
            return problem(bytes, fmt::format("an attribute of type {}", type), "the file is damaged or too new");
          out.type = static_cast<Attribute::Type>(type);
          return {};
        }
        case 21:
          return name(f, out.reference);
        default:
          return {};
      }
    }));
    const bool is_one = out.type == Attribute::Type::kTensor || out.type == Attribute::Type::kGraph;
    if (is_one && out.reference.empty() && out.tensors.size() + out.graphs.size() != 1)
      return problem(
          bytes,
          fmt::format("attribute '{}' holds {} values", printable(out.name), out.tensors.size() + out.graphs.size()),
          "write one");
    return {};
  }

  Status value(Span bytes, ValueInfo& out) {
    QUERN_TRY(each(bytes, "a value", [&](const Field& f) -> Status {
      if (f.number == 1) return name(f, out.name);
      if (f.number == 2) return message(f, "type", [&] { return type(f.bytes, out); });
      return {};
    }));
    return rank(out.shape.size(), out.name);
  }

  Status type(Span bytes, ValueInfo& out) {
    return each(bytes, "a type", [&](const Field& f) -> Status {
      using Kind = ValueInfo::Kind;
      switch (f.number) {
        case 1:
          out.kind = Kind::kTensor;
          return message(f, "tensor_type", [&] { return tensor_type(f.bytes, out); });
        case 4:
          out.kind = Kind::kSequence;
          return {};
        case 5:
          out.kind = Kind::kMap;
          return {};
        case 7:
          out.kind = Kind::kOpaque;
          return {};
        case 8:
          out.kind = Kind::kSparseTensor;
          return {};
        case 9:
          out.kind = Kind::kOptional;
          return {};
        default:
          return {};
      }
    });
  }

  Status tensor_type(Span bytes, ValueInfo& out) {
    return each(bytes, "a tensor type", [&](const Field& f) -> Status {
      if (f.number == 1) {
        int64_t type = 0;
        QUERN_TRY(whole(f, "elem_type", type));
        out.data_type = type < 0 || type > 1'000'000 ? -1 : static_cast<int32_t>(type);
        return {};
      }
      if (f.number != 2) return {};
      out.has_shape = true;
      return message(f, "shape", [&] {
        return each(f.bytes, "a shape", [&](const Field& dim) -> Status {
          if (dim.number != 1) return {};
          return message(dim, "dim", [&] { return add(out.shape, dim.bytes, &Reader::dimension); });
        });
      });
    });
  }

  Status dimension(Span bytes, Dimension& out) {
    return each(bytes, "a dimension", [&](const Field& f) -> Status {
      if (f.number == 1) return whole(f, "dim_value", out.value);
      if (f.number == 2) return name(f, out.name);
      return {};
    });
  }

  Status function(Span bytes, Function& out) {
    QUERN_TRY(each(bytes, "a function", [&](const Field& f) -> Status {
      switch (f.number) {
        case 1:
          return name(f, out.name);
        case 4:
          return names(f, out.inputs);
        case 5:
          return names(f, out.outputs);
        case 6:
          return names(f, out.attributes);
        case 7:
          return message(f, "node", [&] { return add(out.nodes, f.bytes, &Reader::node); });
        case 9:
          return message(f, "opset_import", [&] { return add(out.opsets, f.bytes, &Reader::opset); });
        case 10:
          return name(f, out.domain);
        case 11:
          return message(f, "attribute_proto",
                         [&] { return add(out.attributes_or_default, f.bytes, &Reader::attribute); });
        case 13:
          return name(f, out.overload);
        default:
          return {};
      }
    }));
    if (out.domain == "ai.onnx") out.domain = "";
    return {};
  }

  Span file_;
  const Limits& limits_;
  uint64_t used_bytes_ = 0;
  size_t nodes_ = 0;
  int depth_ = 0;
  bool has_graph_ = false;
};

}  // namespace

Result<Model> read_model(Span file, const Limits& limits) {
  Model out;
  Reader reader(file, limits);
  QUERN_TRY(reader.model(file, out));
  if (!reader.has_graph()) return invalid("onnx: the file holds no graph; it is empty, cut off, or no ONNX model");
  return out;
}

Result<Tensor> read_tensor(Span file, const Limits& limits) {
  Tensor out;
  QUERN_TRY(Reader(file, limits).tensor(file, out));
  return out;
}

}  // namespace quern::model::onnx
