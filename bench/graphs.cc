// SPDX-License-Identifier: Apache-2.0
#include "bench/graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace quern::bench {
namespace {

using Tensor = uint32_t;  ///< index into Graph::buffers
using Sizes = std::vector<Expression>;

Expression parse(const std::string& text) {
  auto parsed = Expression::parse(text);
  QUERN_CHECK(parsed.ok(), text);
  return std::move(parsed).value();
}

Sizes fixed(std::initializer_list<int64_t> sizes) {
  Sizes shape;
  for (const int64_t size : sizes) shape.push_back(Expression::constant(size));
  return shape;
}

/// Writes a graph, buffer by buffer and kernel by kernel.
class Writer {
 public:
  explicit Writer(std::string name) { graph_.name = std::move(name); }

  Tensor buffer(Role role, Sizes shape, const std::string& name = "t") {
    BufferDecl decl;
    decl.name = fmt::format("{}{}", name, graph_.buffers.size());
    decl.role = role;
    decl.shape = std::move(shape);
    graph_.buffers.push_back(std::move(decl));
    return static_cast<Tensor>(graph_.buffers.size() - 1);
  }

  KernelDecl& kernel(std::string entry, const std::vector<Tensor>& in, Tensor out, Access access = Access::kOut) {
    KernelDecl decl;
    decl.entry = std::move(entry);
    decl.global = {Expression::constant(64)};
    decl.local = {Expression::constant(64)};
    for (const Tensor one : in) decl.arguments.push_back(argument(one, Access::kIn));
    decl.arguments.push_back(argument(out, access));
    graph_.kernels.push_back(std::move(decl));
    step(StepDecl::Kind::kKernel, graph_.kernels.size());
    return graph_.kernels.back();
  }

  /// A layer: its tensor, from `in` and weights of these sizes.
  Tensor layer(const std::string& entry, std::vector<Tensor> in, std::initializer_list<int64_t> shape,
               std::initializer_list<int64_t> weights = {}) {
    if (weights.size() > 0) in.push_back(buffer(Role::kConstant, fixed(weights), "w"));
    const Tensor out = buffer(Role::kScratch, fixed(shape), entry);
    kernel(entry, in, out);
    return out;
  }

  void fill(Tensor target) {
    FillDecl decl;
    decl.buffer = target;
    decl.value = Expression::constant(0);
    graph_.fills.push_back(std::move(decl));
    step(StepDecl::Kind::kFill, graph_.fills.size());
  }

  Graph& graph() { return graph_; }
  Graph take() { return std::move(graph_); }

 private:
  static ArgumentDecl argument(Tensor buffer, Access access) {
    ArgumentDecl decl;
    decl.access = access;
    decl.buffer = buffer;
    return decl;
  }
  void step(StepDecl::Kind kind, size_t count) { graph_.steps.push_back({kind, static_cast<uint32_t>(count - 1)}); }

  Graph graph_;
};

/// The same numbers on every machine.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}

  /// 0 to `sides` - 1.
  uint32_t roll(uint32_t sides) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return static_cast<uint32_t>((state_ >> 33) % sides);
  }

 private:
  uint64_t state_;
};

void add_scalar(KernelDecl& kernel, Dtype dtype, const std::string& value) {
  ArgumentDecl decl;
  decl.kind = ArgumentDecl::Kind::kScalar;
  decl.dtype = dtype;
  decl.value = parse(value);
  kernel.arguments.push_back(std::move(decl));
}

void add_local(KernelDecl& kernel, int64_t bytes) {
  ArgumentDecl decl;
  decl.kind = ArgumentDecl::Kind::kLocal;
  decl.value = Expression::constant(bytes);
  kernel.arguments.push_back(std::move(decl));
}

// Convolution and ReLU. `size` is that of the output's side.
Tensor convolve(Writer& graph, Tensor in, int64_t from, int64_t to, int64_t size, int64_t window) {
  const Tensor out = graph.layer("conv", {in}, {1, to, size, size}, {to, from, window, window});
  return graph.layer("relu", {out}, {1, to, size, size});
}

}  // namespace

Graph mixed_graph(size_t kernels, uint64_t seed) {
  constexpr std::array kWidths{32, 64, 96, 128, 256, 768, 3072};
  constexpr size_t kLongSkips = 4;  // through all of the graph, however long it is
  Writer writer(fmt::format("mixed{}", kernels));
  Graph& graph = writer.graph();
  graph.dims.push_back({.name = "n", .fixed = false, .value = 64, .min = 1, .max = 4096, .multiple_of = 1});
  ParamDecl alpha;
  alpha.name = "alpha";
  alpha.value = scalar_of(alpha.dtype, 1.0);
  graph.params.push_back(std::move(alpha));
  Dice dice(seed);
  const auto width = [&] { return kWidths[dice.roll(kWidths.size())]; };
  std::vector<Tensor> made;    // all, in order
  std::vector<Tensor> unread;  // that nobody has read yet, but the last
  std::vector<Tensor> long_skips;
  Sizes input{parse("n")};
  input.push_back(Expression::constant(64));
  made.push_back(writer.buffer(Role::kInput, std::move(input), "input"));
  for (size_t i = 0; i + 1 < kernels; ++i) {
    const Tensor last = made.back();
    const int64_t wide = width();
    std::vector<Tensor> in{last};
    const uint32_t kind = dice.roll(32);
    if (kind < 3 && graph.buffers[last].role == Role::kScratch) {  // in place
      add_scalar(writer.kernel("inplace", {}, last, Access::kInout), Dtype::kFp32, "alpha * 2");
      continue;
    }
    if (kind < 7) {  // a branch: from before, with the last left for a join
      in = {made[made.size() - 1 - dice.roll(static_cast<uint32_t>(std::min<size_t>(made.size(), 6)))]};
      if (in[0] != last) unread.push_back(last);
    } else if (kind < 15) {  // a skip connection, most of them short
      const uint32_t reach = kind == 14 ? 200 : 8;
      in.push_back(made[made.size() - 1 - dice.roll(static_cast<uint32_t>(std::min<size_t>(made.size(), reach)))]);
      if (in[1] == last) in.pop_back();
    } else if (kind < 20) {  // a join
      for (int many = 0; many < 2 && !unread.empty(); ++many) {
        in.push_back(unread.back());
        unread.pop_back();
      }
    }
    if (i % 3 == 0) in.push_back(writer.buffer(Role::kConstant, fixed({64, wide}), "w"));
    const Tensor out = writer.buffer(Role::kScratch, {parse("n"), Expression::constant(wide)});
    if (i % 64 == 1) graph.buffers[out].zero = true;
    if (i % 64 == 33) writer.fill(out);
    KernelDecl& kernel =
        writer.kernel(i % 3 == 0 ? "product" : "map", in, out, i % 32 == 1 ? Access::kInout : Access::kOut);
    kernel.global = {parse(fmt::format("round_up(n * {}, 64)", wide))};
    add_scalar(kernel, Dtype::kUint32, "n");
    add_scalar(kernel, Dtype::kUint32, fmt::format("n * {}", wide));
    if (i % 24 == 0) add_scalar(kernel, Dtype::kFp32, "alpha");
    if (i % 12 == 0) add_local(kernel, 4096);
    if (long_skips.size() < kLongSkips) long_skips.push_back(out);
    made.push_back(out);
  }
  std::vector<Tensor> in{made.back()};
  in.insert(in.end(), long_skips.begin(), long_skips.end());
  const auto rest = static_cast<ptrdiff_t>(std::min<size_t>(unread.size(), kMostArguments / 2));
  in.insert(in.end(), unread.end() - rest, unread.end());
  std::sort(in.begin(), in.end());
  in.erase(std::unique(in.begin(), in.end()), in.end());
  writer.kernel("join", in, writer.buffer(Role::kOutput, {parse("n"), Expression::constant(64)}, "output"));
  return writer.take();
}

Graph resnet50() {
  Writer writer("resnet50");
  const Tensor image = writer.buffer(Role::kInput, fixed({1, 3, 224, 224}), "image");
  Tensor x = convolve(writer, image, 3, 64, 112, 7);
  x = writer.layer("maxpool", {x}, {1, 64, 56, 56});
  int64_t from = 64, size = 56;
  using Stage = std::pair<int64_t, int>;
  for (const auto& [width, blocks] : {Stage{64, 3}, Stage{128, 4}, Stage{256, 6}, Stage{512, 3}}) {
    for (int block = 0; block < blocks; ++block) {
      const int64_t to = 4 * width, before = size;
      if (block == 0 && width != 64) size /= 2;
      Tensor way = convolve(writer, x, from, width, before, 1);
      way = convolve(writer, way, width, width, size, 3);
      way = writer.layer("conv", {way}, {1, to, size, size}, {to, width, 1, 1});
      if (block == 0) x = writer.layer("conv", {x}, {1, to, size, size}, {to, from, 1, 1});
      x = writer.layer("add", {way, x}, {1, to, size, size});
      x = writer.layer("relu", {x}, {1, to, size, size});
      from = to;
    }
  }
  x = writer.layer("meanpool", {x}, {1, from});
  x = writer.layer("full", {x}, {1, 1000}, {1000, from});
  writer.graph().buffers[x].role = Role::kOutput;
  return writer.take();
}

Graph bert_base(int64_t tokens) {
  constexpr int64_t kWidth = 768, kHeads = 12, kHead = kWidth / kHeads, kWide = 3072, kLayers = 12;
  Writer writer("bert_base");
  const auto input = [&](const std::string& name) { return writer.buffer(Role::kInput, fixed({1, tokens}), name); };
  const Tensor ids = input("ids"), types = input("types"), mask = input("mask");
  const auto add = [&](Tensor a, Tensor b) { return writer.layer("add", {a, b}, {1, tokens, kWidth}); };
  const auto normalize = [&](Tensor a) { return writer.layer("norm", {a}, {1, tokens, kWidth}, {2, kWidth}); };
  const auto product = [&](Tensor a, int64_t from, int64_t to) {
    return writer.layer("product", {a}, {1, tokens, to}, {from + 1, to});  // and the bias
  };
  const auto split = [&](Tensor a) { return writer.layer("split", {a}, {1, kHeads, tokens, kHead}); };

  const Tensor words = writer.layer("gather", {ids}, {1, tokens, kWidth}, {30522, kWidth});
  const Tensor kinds = writer.layer("gather", {types}, {1, tokens, kWidth}, {2, kWidth});
  Tensor x = add(words, kinds);
  x = writer.layer("place", {x}, {1, tokens, kWidth}, {512, kWidth});
  x = normalize(x);
  const Tensor shut = writer.layer("mask", {mask}, {1, 1, 1, tokens});
  for (int64_t i = 0; i < kLayers; ++i) {
    const Tensor q = split(product(x, kWidth, kWidth)), k = split(product(x, kWidth, kWidth));
    const Tensor v = split(product(x, kWidth, kWidth));
    Tensor scores = writer.layer("scores", {q, k}, {1, kHeads, tokens, tokens});
    scores = writer.layer("shut", {scores, shut}, {1, kHeads, tokens, tokens});
    scores = writer.layer("softmax", {scores}, {1, kHeads, tokens, tokens});
    Tensor way = writer.layer("values", {scores, v}, {1, kHeads, tokens, kHead});
    way = writer.layer("merge", {way}, {1, tokens, kWidth});
    x = normalize(add(product(way, kWidth, kWidth), x));
    way = product(x, kWidth, kWide);
    way = writer.layer("gelu", {way}, {1, tokens, kWide});
    x = normalize(add(product(way, kWide, kWidth), x));
  }
  writer.graph().buffers[x].role = Role::kOutput;
  const Tensor first = writer.layer("first", {x}, {1, kWidth});
  const Tensor pooled = writer.layer("pooler", {first}, {1, kWidth}, {kWidth + 1, kWidth});
  const Tensor out = writer.layer("tanh", {pooled}, {1, kWidth});
  writer.graph().buffers[out].role = Role::kOutput;
  return writer.take();
}

Binding binding_of(const Graph& graph, int64_t n) {
  Binding binding;
  for (const DimDecl& dim : graph.dims) binding.dims.push_back(dim.name == "n" ? n : dim.value.value_or(dim.min));
  for (const ParamDecl& param : graph.params) binding.params.push_back(param.value.value_or(Scalar{param.dtype, 0}));
  return binding;
}

uint64_t tensor_bytes(const Plan& plan) {
  uint64_t sum = 0;
  for (const PlannedBuffer& buffer : plan.buffers)
    if (buffer.role == Role::kScratch || buffer.role == Role::kOutput) sum += buffer.size_bytes;
  return sum;
}

Status check_placement(const Plan& plan, const Placement& placement) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < plan.buffers.size(); ++i)
    if (placement.places[i].arena != Placement::kElsewhere) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return plan.buffers[a].first < plan.buffers[b].first; });
  std::vector<uint32_t> live;
  for (const uint32_t one : order) {
    const PlannedBuffer& buffer = plan.buffers[one];
    const Placement::Place& at = placement.places[one];
    if (at.arena >= placement.arenas.size() || at.offset + buffer.size_bytes > placement.arenas[at.arena])
      return internal(fmt::format("buffer {}: lies past the end of its arena", one));
    std::erase_if(live, [&](uint32_t other) { return plan.buffers[other].last < buffer.first; });
    for (const uint32_t other : live) {
      const Placement::Place& there = placement.places[other];
      if (there.arena == at.arena && there.offset < at.offset + buffer.size_bytes &&
          at.offset < there.offset + plan.buffers[other].size_bytes)
        return internal(fmt::format("buffers {} and {}: live at the same time at the same place", other, one));
    }
    live.push_back(one);
  }
  return {};
}

}  // namespace quern::bench
