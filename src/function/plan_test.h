// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "function/manifest.h"
#include "function/plan.h"

namespace quern {

/// A manifest of these parts, beside a program without kernels; the test fails if it has mistakes that are no warnings.
inline Manifest manifest_with(const std::string& parts) {
  const std::string text = "api: quern/v1\nname: g\nkind: graph\nprograms: {opencl: a.cl}\n" + parts;
  const ParsedManifest parsed = parse_manifest({{"function.yaml", bytes_of(text)}, {"a.cl", {}}});
  for (const Mistake& mistake : parsed.mistakes) EXPECT_TRUE(mistake.is_warning) << to_string(mistake);
  return parsed.manifest.value_or(Manifest{});
}

/// The plan of a call of it with these parameters. Every input has 64 elements.
inline Result<Plan> plan_of(const std::string& parts, std::map<std::string, ParameterValue> parameters = {}) {
  const Manifest manifest = manifest_with(parts);
  CallSpec call;
  call.parameters = std::move(parameters);
  for (const BufferDecl& buffer : manifest.buffers)
    if (buffer.role == Role::kInput) call.inputs.push_back({buffer.name, buffer.dtype, {64}});
  auto binding = bind(manifest, call);
  if (!binding.ok()) return std::move(binding).error();
  return make_plan(manifest, *binding);
}

}  // namespace quern
