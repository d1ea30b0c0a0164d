// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "main/command.h"
#include "main/tensors.h"
#include "os/file.h"

namespace quern::main {
namespace {

// {0} is the name of the function, {1} that of its entry.
constexpr std::string_view kManifest = R"YAML(api: quern/v1
name: {0}
kind: graph

programs:
  opencl: {0}.cl

# Sizes. This one is what the caller's tensor says, within these bounds.
dims:
  n: {{default: 1000, min: 1, max: 67108864}}

# Numbers that a call may set.
params:
  scale: {{dtype: fp32, default: 2}}
  shift: {{dtype: fp32, default: 1}}

buffers:
  x: {{role: input, dtype: fp32, shape: [n]}}
  y: {{role: output, dtype: fp32, shape: [n]}}

kernels:
  - entry: {1}
    global: ["round_up(n, 64)"]    # a multiple of the local size; the kernel leaves out what is too much
    local: [64]
    args: [{{in: x}}, {{out: y}}, {{fp32: scale}}, {{fp32: shift}}, {{uint32: n}}]
    flops: 2 * n                   # for `quern check`: GFLOP/s and GB/s
    bytes: 8 * n

settings:
  priority: 5
  limits: {{timeout: 10s}}
)YAML";

constexpr std::string_view kKernel = R"(// y = scale * x + shift
__kernel void {0}(__global const float* restrict x, __global float* restrict y, float scale, float shift, uint n) {{
  const size_t i = get_global_id(0);
  if (i < n) y[i] = scale * x[i] + shift;
}}
)";

constexpr std::string_view kReadme = R"(# {0}

`y = scale * x + shift`, element by element.

    quern check {0}                                              # validate, build, run, compare with expected/
    quern run {0} --input x=@random --dims n=8 --param scale=3   # once, without a server
    quern deploy {0}                                             # to a server: quern serve
    quern invoke {0} --input x=@random

* `function.yaml` says what goes in and out and which kernels run; `quern plan {0}` shows what that comes to.
* `expected/CASE` holds inputs and outputs that `quern check` compares with.
)";

Status write_text(const std::string& path, std::string_view text) { return os::write_file(path, as_bytes_of(text)); }

Status write_case(const std::string& folder, const std::vector<float>& x) {
  std::vector<float> y;
  for (const float one : x) y.push_back(2 * one + 1);
  QUERN_TRY(os::make_folders(folder + "/input"));
  QUERN_TRY(os::make_folders(folder + "/output"));
  const Shape shape{static_cast<int64_t>(x.size())};
  QUERN_TRY(write_npy(folder + "/input/x.npy", {"x", Dtype::kFp32, shape, std::as_bytes(std::span(x))}));
  QUERN_TRY(write_npy(folder + "/output/y.npy", {"y", Dtype::kFp32, shape, std::as_bytes(std::span(y))}));
  return write_text(folder + "/case.yaml", "params: {scale: 2, shift: 1}\nrtol: 1e-6\natol: 1e-6\n");
}

Status make(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const size_t slash = path.find_last_of('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (!is_function_name(name))
    return invalid(fmt::format("{}: is no name for a function; use a-z, 0-9, '.', '_', '-', at most 63", name));
  if (os::exists(path)) return conflict(fmt::format("{}: is there already; choose another name", path));
  std::string entry = name;
  std::replace_if(
      entry.begin(), entry.end(), [](char c) { return c == '.' || c == '-'; }, '_');
  entry = (entry[0] >= '0' && entry[0] <= '9' ? "run_" : "") + entry + "_kernel";
  QUERN_TRY(os::make_folders(path));
  QUERN_TRY(write_text(path + "/function.yaml", fmt::format(fmt::runtime(kManifest), name, entry)));
  QUERN_TRY(write_text(path + "/" + name + ".cl", fmt::format(fmt::runtime(kKernel), entry)));
  QUERN_TRY(write_text(path + "/README.md", fmt::format(fmt::runtime(kReadme), name)));
  QUERN_TRY(write_case(path + "/expected/smallest", {3}));
  std::vector<float> odd;
  for (int i = 0; i < 67; ++i) odd.push_back(static_cast<float>(i) / 8);
  QUERN_TRY(write_case(path + "/expected/odd", odd));
  fmt::print("{}: made; now 'quern check {}'\n", path, path);
  return {};
}

}  // namespace

void add_new(CLI::App& app, Work& work) {
  auto* command = app.add_subcommand("new", "Write the folder of a new function, to start from");
  auto path = std::make_shared<std::string>();
  command->add_option("NAME", *path, "The function's name, or a path that ends with it")->required();
  command->callback([=, &work] {
    work = [=] {
      const auto made = make(*path);
      return made.ok() ? 0 : fail(made.error());
    };
  });
}

}  // namespace quern::main
