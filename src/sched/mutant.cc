// SPDX-License-Identifier: Apache-2.0
#include "sched/mutant.h"

namespace quern::sched {

#ifdef QUERN_MUTANTS
int& mutant() {
  static int which = 0;
  return which;
}
#endif

}  // namespace quern::sched
