// SPDX-License-Identifier: Apache-2.0
#include "bench/layers.h"

#include <fmt/format.h>

#include <cstring>

#include "base/units.h"
#include "bench/stage.h"
#include "function/tar.h"
#include "os/file.h"

namespace quern::bench {
namespace {

Bytes weights_of(uint64_t bytes, uint64_t content) {
  Bytes weights(bytes);
  for (uint64_t i = 0; i + 4 <= bytes; i += 4) {
    const auto word = static_cast<uint32_t>((content + 1) * 2654435761U + i);
    std::memcpy(weights.data() + i, &word, sizeof word);
  }
  return weights;
}

/// A manifest in which this stands once.
Status change(std::string& text, std::string_view from, const std::string& to) {
  const size_t at = text.find(from);
  if (at == text.npos || text.find(from, at + 1) != text.npos)
    return invalid(
        fmt::format("bench/functions/layers: '{}' does not stand there once; bench/layers.cc changes it", from));
  text.replace(at, from.size(), to);
  return {};
}

}  // namespace

Result<Bytes> Layers::tar() const {
  QUERN_TRY(const std::string folder, functions_folder());
  QUERN_TRY(const Bytes manifest, os::read_file(folder + "/layers/function.yaml", kMiB));
  QUERN_TRY(Bytes program, os::read_file(folder + "/layers/layers.cl", kMiB));
  std::string text(as_text(manifest));
  QUERN_TRY(change(text, "name: layers", "name: " + name));
  QUERN_TRY(change(text, "head: 4", fmt::format("head: {}", head_bytes / 4)));
  QUERN_TRY(change(text, "data: [1, 2, 3, 4]", "file: head.bin"));
  if (variant != 0)
    QUERN_TRY(change(text, "opencl: layers.cl",
                     fmt::format("opencl: {{files: [layers.cl], defines: {{VARIANT: {}}}}}", variant)));
  Files files;
  if (body_bytes > 0) {
    QUERN_TRY(change(text, "body: 4", fmt::format("body: {}", body_bytes / 4)));
    QUERN_TRY(change(text, "data: [5, 6, 7, 8]", "file: body.bin"));
    files["body.bin"] = weights_of(body_bytes, body_content);
  } else {
    QUERN_TRY(change(text, "  body: 4\n", ""));
    QUERN_TRY(change(text, "  body_weights: {role: constant, dtype: uint32, shape: [body], data: [5, 6, 7, 8]}\n", ""));
    QUERN_TRY(change(text, "{in: body_weights}", "{in: head_weights}"));
    QUERN_TRY(change(text, "{uint32: body}", "{uint32: head}"));
  }
  files["head.bin"] = weights_of(head_bytes, head_content);
  files["function.yaml"] = bytes_of(text);
  files["layers.cl"] = std::move(program);
  return write_tar(files);
}

CallSpec LayersCall::spec() const {
  CallSpec spec;
  spec.inputs.push_back({"input", Dtype::kUint32, {input_words}});
  spec.parameters["scratch"] = scratch_words;
  spec.parameters["launches"] = launches;
  spec.parameters["iterations"] = iterations;
  return spec;
}

}  // namespace quern::bench
