// SPDX-License-Identifier: Apache-2.0
#include "base/fuzz_main.h"
#include "function/manifest.h"
#include "function/plan.h"
#include "function/plan_builder.h"

using namespace quern;

// Whatever parses must also plan, bind and hash without harm, at every corner of its dims.
void fuzz_one(std::span<const std::byte> input) {
  Files files;
  files["function.yaml"] = Bytes(input.begin(), input.end());
  files["a.cl"] = {};
  files["w.bin"] = Bytes(64);
  const ParsedManifest parsed = parse_manifest(files);
  for (const Mistake& mistake : parsed.mistakes) QUERN_CHECK(!to_string(mistake).empty(), "a mistake has a text");
  if (!parsed.manifest) {
    QUERN_CHECK(!parsed.mistakes.empty(), "nothing is refused without a reason");
    return;
  }
  const Manifest& manifest = *parsed.manifest;
  QUERN_CHECK(version_of(manifest, files).size() == 64, "a version is a hash");
  QUERN_CHECK(group_sizes_of(manifest).size() <= 16, "group sizes are bounded");
  for (Corner corner : {Corner::kSmallest, Corner::kDefault, Corner::kLargest}) {
    const Binding binding = corner_of(manifest, corner);
    const auto plan = make_plan(manifest, binding);
    if (!plan.ok()) continue;
    const auto scalars = scalars_of(manifest, *plan, binding);
    QUERN_CHECK(!scalars.ok() || plan->slots.size() == scalars->size(), "a value for each slot");
    for (const Placement* placement : {&plan->in_place, &plan->own})
      for (size_t i = 0; i < plan->buffers.size(); ++i) {
        const Placement::Place& at = placement->places[i];
        QUERN_CHECK(at.arena == Placement::kElsewhere ||
                        at.offset + plan->buffers[i].size_bytes <= placement->arenas.at(at.arena),
                    "a buffer lies in its arena");
      }
    CallSpec call;
    for (size_t i = 0; i < manifest.buffers.size(); ++i)
      if (manifest.buffers[i].role == Role::kInput)
        call.inputs.push_back({manifest.buffers[i].name, manifest.buffers[i].dtype, plan->buffers[i].shape});
    (void)bind(manifest, call);
  }
}

FuzzPlan fuzz_plan() {
  FuzzPlan plan;
  plan.rounds = 10'000;
  plan.seeds = {
      R"(api: quern/v1
name: jacobi
kind: graph
programs:
  opencl: {files: [a.cl], options: [-cl-mad-enable], defines: {TILE: 64}}
dims:
  n: {default: 512, min: 64, max: 8192, multiple_of: 64}
  k: 16
params:
  tolerance: {dtype: fp32, default: 1e-5}
  steps: {dtype: int32, default: 3, min: 1, max: 8}
buffers:
  w: {role: constant, dtype: fp32, shape: [k], file: w.bin}
  b: {role: input, dtype: fp32, shape: [n, n * steps]}
  x: {role: output, dtype: fp32, shape: [n], zero: true}
  y: {role: scratch, dtype: uint8, shape: [round_up(n, 64)]}
kernels:
  - {entry: step, global: [n, 2], local: [64, 1], args: [{in: w}, {in: b}, {out: y},
      {fp32: tolerance / 2}, {uint32: n << 1}, {local: 64*4}]}
  - {entry: norm, global: [ceil_div(n, 2)], args: [{in: y}, {inout: x}]}
settings: {priority: 3, limits: {timeout: 2s, device_time: 1s, memory: 64MiB}}
)",
      R"(api: quern/v1
name: rounds
kind: graph
programs: {opencl: a.cl}
dims: {n: {default: 64, min: 64, max: 512, multiple_of: 64}}
params: {steps: {dtype: int32, default: 3, min: 1, max: 8}, eps: {dtype: fp32, default: 0.5}}
buffers:
  w: {role: constant, dtype: uint8, shape: [2, 2], data: [[1, 2], [3, 4]]}
  b: {role: input, dtype: fp32, shape: [n]}
  x: {role: output, dtype: fp32, shape: [n]}
  y: {role: scratch, dtype: fp32, shape: [n]}
  e: {role: output, dtype: fp32, shape: [1], zero: true}
kernels:
  - {fill: x, value: eps * 2}
  - repeat: {times: steps, index: i, swap: [x, y]}
    kernels:
      - repeat: {times: i + 1, index: j}
        kernels:
          - {entry: k, global: [n << j], args: [{in: b, offset: 0, count: n}, {in: w}, {in: x}, {out: y}, {int32: j}]}
  - repeat:
      at_most: 100
      name: outer
      on_limit: error
      until:
        check: [{entry: norm, global: [1], args: [{in: x}, {inout: e}]}]
        every: 5
        buffer: e
        element: 0
        below: eps
    kernels: [{entry: s, global: [n], args: [{inout: x}]}]
)",
      R"({"api":"quern/v1","name":"j","kind":"graph","programs":{"opencl":"a.cl"},
"buffers":{"z":{"role":"output","dtype":"fp32","shape":["8"]}},
"kernels":[{"entry":"k","global":["2*4"],"args":[{"out":"z"}]}]})"};
  plan.words = {"{",
                "}",
                "[",
                "]",
                ": ",
                "- ",
                "&a ",
                "*a ",
                "!!x ",
                "? ",
                "|\n",
                ">\n",
                "'",
                "\"",
                "\n",
                "\n  ",
                "---\n",
                "#",
                "%YAML ",
                "\t",
                "<<: ",
                "~",
                "-1",
                "0",
                "1e99",
                "9223372036854775807",
                "n",
                "log2(",
                "repeat: ",
                "until: ",
                "swap: [x, y]",
                "times: ",
                "index: i",
                "offset: ",
                "min(",
                "ceil_div(",
                "<<62",
                "%",
                "/0",
                "(((",
                "\xff\xfe",
                "\xef\xbb\xbf",
                "\\u0000"};
  return plan;
}
