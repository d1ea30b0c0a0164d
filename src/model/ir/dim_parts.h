// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "model/ir/dim.h"

namespace quern::model::ir {

/// What a sum is made of besides numbers: a name, or a quotient, minimum or maximum of two expressions.
struct Dim::Atom {
  enum class Kind : uint8_t { kName, kFloorDiv, kMin, kMax };
  Kind kind = Kind::kName;
  std::string name;                     ///< kName
  int64_t low = 1, high = kLargestDim;  ///< kName
  Dim a, b;                             ///< others
};

struct Dim::Factor {
  std::shared_ptr<const Atom> atom;
  int power = 1;
};

/// `number` times a product of powers of atoms, in the order of Dim::order.
struct Dim::Term {
  int64_t number = 1;
  std::vector<Factor> factors;
};

struct Dim::Sum {
  std::vector<Term> terms;  ///< in the order of Dim::order, none with number 0
  int parts = 0;            ///< atoms in it, also inside atoms
};

}  // namespace quern::model::ir
