// SPDX-License-Identifier: Apache-2.0
//
// Products of matrices. Leading dimensions are batches, which broadcast; vectors become matrices of one row or column
// before they get here. Floats are summed in double, integers wrap.
#include <fmt/format.h>

#include <algorithm>

#include "model/kernel/any/any.h"
#include "model/op/broadcast.h"
#include "model/op/families.h"
#include "model/op/node_import.h"
#include "model/op/walk.h"

namespace quern::model::op {
namespace {

// The sizes of a matrix as it is multiplied: rows and columns of its last two dimensions, perhaps transposed.
template <class List>
auto matrix_of(const List& sizes, bool is_transposed) {
  const auto rows = sizes[sizes.size() - 2], columns = sizes[sizes.size() - 1];
  return is_transposed ? std::pair(columns, rows) : std::pair(rows, columns);
}

Result<std::vector<ir::Type>> infer_matmul(Site& site) {
  const ir::Type &a = site.type(0), &b = site.type(1);
  if (a.dtype != b.dtype || a.dtype == Dtype::kBool)
    return invalid(
        fmt::format("its inputs are {} and {}; give two of one dtype of numbers", name_of(a.dtype), name_of(b.dtype)));
  if (a.rank() < 2 || b.rank() < 2) return invalid("an input has fewer than 2 dimensions; give matrices");
  const auto [m, k] = matrix_of(a.dims, site.attributes.flag("trans_a"));
  const auto [k2, n] = matrix_of(b.dims, site.attributes.flag("trans_b"));
  if (!site.same(k, k2))
    return invalid(fmt::format("rows of {} times columns of {}; give as many", k.text(), k2.text()));
  // The batches broadcast as tensors of their own would.
  ir::Value batch_a, batch_b;
  batch_a.type.dims.assign(a.dims.begin(), a.dims.end() - 2);
  batch_b.type.dims.assign(b.dims.begin(), b.dims.end() - 2);
  Site batches{site.op, {&batch_a, &batch_b}, site.attributes, 1, site.requirements};
  QUERN_TRY(ir::Dims dims, broadcast_dims(batches, {0, 1}));
  dims.push_back(m);
  dims.push_back(n);
  return std::vector{ir::Type{a.dtype, std::move(dims)}};
}

Status reference_matmul(Run& run) {
  const ir::Tensor &a = run.in(0), &b = run.in(1);
  const bool trans_a = run.attributes.flag("trans_a"), trans_b = run.attributes.flag("trans_b");
  const auto [m, k] = matrix_of(a.sizes(), trans_a);
  const int64_t n = matrix_of(b.sizes(), trans_b).second;
  const int64_t row_a = trans_a ? 1 : k, step_a = trans_a ? m : 1, row_b = trans_b ? 1 : n, step_b = trans_b ? k : 1;
  const ir::Sizes &of_a = a.sizes(), &of_b = b.sizes(), &of_out = run.out().sizes();
  const ir::Sizes batches(of_out.begin(), of_out.end() - 2);
  const auto strides_for = [&](const ir::Sizes& sizes, int64_t matrix) {
    std::vector<int64_t> strides = repeated_strides(ir::Sizes(sizes.begin(), sizes.end() - 2), batches);
    for (int64_t& stride : strides) stride *= matrix;
    return strides;
  };
  const std::array strides{strides_for(of_a, m * k), strides_for(of_b, k * n)};
  ir::with_element(a.dtype(), [&]<class T>() {
    using Wide = std::conditional_t<ir::kIsFloat<T>, double, uint64_t>;
    const auto x = a.read<T>(), y = b.read<T>();
    const auto out = run.out().write<T>();
    std::vector<Wide> sums(static_cast<size_t>(n));
    walk(batches, strides, [&](size_t batch, const auto& at) {
      for (int64_t i = 0; i < m; ++i) {
        std::fill(sums.begin(), sums.end(), Wide(0));
        for (int64_t l = 0; l < k; ++l) {
          const auto left =
              static_cast<Wide>(static_cast<ir::Computed<T>>(x[static_cast<size_t>(at[0] + i * row_a + l * step_a)]));
          for (int64_t j = 0; j < n; ++j)
            sums[static_cast<size_t>(j)] +=
                left *
                static_cast<Wide>(static_cast<ir::Computed<T>>(y[static_cast<size_t>(at[1] + l * row_b + j * step_b)]));
        }
        for (int64_t j = 0; j < n; ++j)
          out[batch * static_cast<size_t>(m * n) + static_cast<size_t>(i * n + j)] =
              static_cast<T>(sums[static_cast<size_t>(j)]);
      }
    });
  });
  return {};
}

// Rules of ONNX.

// A vector on the left is a row, one on the right a column; its dimension is not in the result.
Result<ir::ValueId> emit_product(NodeImport& node, ir::ValueId a, ir::ValueId b) {
  const ir::Dims of_a = node.type(a).dims, of_b = node.type(b).dims;
  if (of_a.empty() || of_b.empty()) return invalid("an input has no dimensions; give vectors or matrices");
  const bool is_row = of_a.size() == 1, is_column = of_b.size() == 1;
  if (is_row) {
    QUERN_TRY(a, node.reshape(a, {1, of_a[0]}));
  }
  if (is_column) {
    QUERN_TRY(b, node.reshape(b, {of_b[0], 1}));
  }
  QUERN_TRY(ir::ValueId y, node.emit("matmul", {a, b}));
  if (!is_row && !is_column) return y;
  ir::Dims dims = node.type(y).dims;
  if (is_column) dims.pop_back();
  if (is_row) dims.erase(dims.end() - (is_column ? 1 : 2));
  return node.reshape(y, dims);
}

Status import_matmul(NodeImport& node) {
  QUERN_TRY(const ir::ValueId a, node.in(0));
  QUERN_TRY(const ir::ValueId b, node.in(1));
  QUERN_TRY(const ir::ValueId y, emit_product(node, a, b));
  node.set(0, y);
  return {};
}

// alpha * a * b + beta * c, where c broadcasts. A factor of 1 costs nothing.
Status import_gemm(NodeImport& node) {
  QUERN_TRY(const ir::ValueId a, node.in(0));
  QUERN_TRY(const ir::ValueId b, node.in(1));
  QUERN_TRY(const double alpha, node.real("alpha", 1));
  QUERN_TRY(const double beta, node.real("beta", 1));
  QUERN_TRY(const bool trans_a, node.flag("transA", false));
  QUERN_TRY(const bool trans_b, node.flag("transB", false));
  if (node.rank(a) != 2 || node.rank(b) != 2) return invalid("an input has not 2 dimensions; give matrices");
  const Dtype dtype = node.type(a).dtype;
  QUERN_TRY(ir::ValueId y, node.emit("matmul", {a, b}, {{"trans_a", ir::Dim(trans_a)}, {"trans_b", ir::Dim(trans_b)}}));
  if (alpha != 1) {
    QUERN_TRY(y, node.emit("mul", {y, node.number(dtype, alpha)}));
  }
  if (node.has(2) && beta != 0) {
    QUERN_TRY(ir::ValueId c, node.in(2));
    if (node.rank(c) > 2) return invalid("the third input has more than 2 dimensions; give at most a matrix");
    if (beta != 1) {
      QUERN_TRY(c, node.emit("mul", {c, node.number(dtype, beta)}));
    }
    const ir::Dims dims = node.type(y).dims;
    QUERN_TRY(y, node.emit("add", {y, c}));
    if (node.type(y).dims != dims) return invalid("the third input is larger than the product; give one that repeats");
  }
  node.set(0, y);
  return {};
}

// Integers of 8 bits, less their zero points, multiplied and summed in 32 bits.
Status import_matmul_integer(NodeImport& node) {
  ir::ValueId operands[2];
  for (size_t i = 0; i < 2; ++i) {
    QUERN_TRY(operands[i], node.in(i));
    QUERN_TRY(operands[i], node.cast(operands[i], Dtype::kInt32));
    if (!node.has(i + 2)) continue;
    QUERN_TRY(ir::ValueId zero, node.in(i + 2));
    QUERN_TRY(zero, node.cast(zero, Dtype::kInt32));
    // A zero point per row of the left matrix is a column.
    if (i == 0 && node.rank(zero) == 1 && !node.type(zero).dims[0].is(1)) {
      QUERN_TRY(zero, node.reshape(zero, {node.type(zero).dims[0], 1}));
    }
    QUERN_TRY(operands[i], node.emit("sub", {operands[i], zero}));
  }
  QUERN_TRY(const ir::ValueId y, emit_product(node, operands[0], operands[1]));
  node.set(0, y);
  return {};
}

Family make_matmul_family() {
  Family family;
  family.name = "products of matrices";
  family.operators = {{.name = "matmul",
                       .attributes = {{"trans_a", ir::Dim(0)}, {"trans_b", ir::Dim(0)}},
                       .least_inputs = 2,
                       .most_inputs = 2,
                       .infer = infer_matmul,
                       .reference = reference_matmul,
                       .lower = kernel::any::lower_matmul}};
  family.rules = {
      {.op = "MatMul", .since = 1, .import = import_matmul},
      {.op = "Gemm", .since = 7, .import = import_gemm},
      {.op = "MatMulInteger", .since = 10, .import = import_matmul_integer},
  };
  return family;
}

}  // namespace

const Family& matmul_family() {
  static const Family family = make_matmul_family();
  return family;
}

}  // namespace quern::model::op
