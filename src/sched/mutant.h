// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Deliberate bugs, to see that the simulator's checkers find them: mutants.txt lists them. Where a mark stands, the
/// right code and the wrong one are both there: `if (QUERN_MUTANT(7)) return;`. In the product every mark is false and
/// leaves no trace; a second build of this folder (QUERN_MUTANTS) can switch one of them on.
namespace quern::sched {

#ifdef QUERN_MUTANTS
/// Which is on; 0: none. Set it while no core exists.
int& mutant();
#define QUERN_MUTANT(n) (::quern::sched::mutant() == (n))
#else
#define QUERN_MUTANT(n) false
#endif

}  // namespace quern::sched
