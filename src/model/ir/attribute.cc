// SPDX-License-Identifier: Apache-2.0
#include "model/ir/attribute.h"

#include <fmt/format.h>

#include <algorithm>

namespace quern::model::ir {

void Attributes::set(std::string_view name, Attribute value) {
  const auto at = std::lower_bound(rows_.begin(), rows_.end(), name,
                                   [](const auto& row, std::string_view key) { return row.first < key; });
  if (at != rows_.end() && at->first == name)
    at->second = std::move(value);
  else
    rows_.emplace(at, std::string(name), std::move(value));
}

void Attributes::erase(std::string_view name) {
  std::erase_if(rows_, [&](const auto& row) { return row.first == name; });
}

const Attribute* Attributes::find(std::string_view name) const {
  for (const auto& row : rows_)
    if (row.first == name) return &row.second;
  return nullptr;
}

template <class T>
const T& Attributes::get(std::string_view name) const {
  const Attribute* found = find(name);
  const T* value = found ? std::get_if<T>(found) : nullptr;
  QUERN_CHECK(value, fmt::format("attribute {} was checked when its node was made", name));
  return *value;
}
template const Dim& Attributes::get<Dim>(std::string_view) const;
template const double& Attributes::get<double>(std::string_view) const;
template const std::string& Attributes::get<std::string>(std::string_view) const;
template const Dims& Attributes::get<Dims>(std::string_view) const;
template const std::vector<double>& Attributes::get<std::vector<double>>(std::string_view) const;

std::vector<int64_t> Attributes::wholes(std::string_view name) const {
  auto fixed = fixed_of(dims(name));
  QUERN_CHECK(fixed, fmt::format("attribute {} is a list of numbers", name));
  return *std::move(fixed);
}

Attributes Attributes::bound(const DimValues& values) const {
  Attributes out = *this;
  for (auto& [name, value] : out.rows_) {
    if (auto* dim = std::get_if<Dim>(&value)) *dim = dim->bound(values);
    if (auto* dims = std::get_if<Dims>(&value))
      for (Dim& dim : *dims) dim = dim.bound(values);
  }
  return out;
}

}  // namespace quern::model::ir
