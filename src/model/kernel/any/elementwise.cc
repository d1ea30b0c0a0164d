// SPDX-License-Identifier: Apache-2.0
#include "model/kernel/any/any.h"
#include "model/kernel/code.h"
#include "model/op/table.h"

namespace quern::model::kernel::any {

Status lower_elementwise(Lowering& lowering) {
  const ir::Node& node = lowering.node();
  Writer writer(lowering);
  writer.line("const long i = get_global_id(0);");
  const ir::Dims& to = lowering.result().dims;
  const Dtype dtype = lowering.result().dtype;
  if (node.op == op::kFused) {
    const std::string value = emit_body(writer, lowering, *node.body, {}, node.inputs, "i");
    writer.line("{}", store(dtype, writer.out(lowering.out(), dtype), "i", value));
    writer.launch("fused", {ir::product_of(to)});
    return {};
  }
  op::Code code{node.op, node.attributes, {}, lowering.made_dtype(), {}};
  std::vector<ir::Dims> operands;
  for (size_t i = 0; i < lowering.inputs(); ++i) operands.push_back(lowering.type(i).dims);
  const Places places(writer, to, operands, "i");
  for (size_t i = 0; i < lowering.inputs(); ++i) {
    const Dtype from = lowering.type(i).dtype;
    const std::string name = writer.fresh("x");
    writer.line("const {} {} = {};", compute_type(from), name,
                load(from, writer.in(lowering.in(i), from), places.of(operands[i])));
    code.from.push_back(from);
    code.operands.push_back(name);
  }
  finish(writer, lowering, "i", fmt::format("({})({})", compute_type(code.to), op::find_operator(node.op)->code(code)));
  writer.launch(node.op, {ir::product_of(to)});
  return {};
}

}  // namespace quern::model::kernel::any
