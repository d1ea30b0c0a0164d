// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/ir/dim.h"

namespace quern::model::ir {

/// The value of an attribute: a whole number, a real one, text, or a list. Whole numbers may be expressions over free
/// dims, since the pads of a convolution or the sizes of a reshape depend on them.
using Attribute = std::variant<Dim, double, std::string, Dims, std::vector<double>>;

/// The attributes of a node by name, in the order of their names. The getters are for attributes that the node has: the
/// rules of its operator were checked when the node was made.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string_view, Attribute>> rows) {
    for (const auto& [name, value] : rows) set(name, value);
  }

  void set(std::string_view name, Attribute value);
  void erase(std::string_view name);
  const Attribute* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }

  const Dim& dim(std::string_view name) const { return get<Dim>(name); }
  int64_t whole(std::string_view name) const { return dim(name).fixed(); }
  bool flag(std::string_view name) const { return whole(name) != 0; }
  double real(std::string_view name) const { return get<double>(name); }
  const std::string& text(std::string_view name) const { return get<std::string>(name); }
  const Dims& dims(std::string_view name) const { return get<Dims>(name); }
  /// A list of numbers without free dims.
  std::vector<int64_t> wholes(std::string_view name) const;
  const std::vector<double>& reals(std::string_view name) const { return get<std::vector<double>>(name); }

  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }
  bool operator==(const Attributes&) const = default;

  /// With these dims replaced by numbers.
  Attributes bound(const DimValues& values) const;

 private:
  template <class T>
  const T& get(std::string_view name) const;

  std::vector<std::pair<std::string, Attribute>> rows_;
};

}  // namespace quern::model::ir
