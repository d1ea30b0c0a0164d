// SPDX-License-Identifier: Apache-2.0

__kernel void begin(__global const int* restrict keys, __global int* restrict sorted, uint n) {
  const uint i = get_global_id(0);
  if (i < n) sorted[i] = keys[i];
}

// Puts `pairs` pairs in order, 16 by each work-item: pair p is the elements first(p) and first(p) + distance. Runs of
// length `run` are sorted up and down in turn, so that two of them together are bitonic.
__kernel void compare(__global int* restrict sorted, uint distance, uint run, uint pairs) {
  const uint begin = 16 * (uint)get_global_id(0);
  if (distance >= 8) {
    // Pairs next to each other are elements next to each other, and all in one run: eight at a time.
    for (uint pair = begin; pair < min(begin + 16, pairs); pair += 8) {
      const uint first = 2 * pair - (pair & (distance - 1));
      const int8 a = vload8(0, sorted + first), b = vload8(0, sorted + first + distance);
      const bool up = (first & run) == 0;
      vstore8(up ? min(a, b) : max(a, b), 0, sorted + first);
      vstore8(up ? max(a, b) : min(a, b), 0, sorted + first + distance);
    }
    return;
  }
  for (uint pair = begin; pair < min(begin + 16, pairs); ++pair) {
    const uint first = 2 * pair - (pair & (distance - 1));
    const int a = sorted[first], b = sorted[first + distance];
    const bool up = (first & run) == 0;
    sorted[first] = up ? min(a, b) : max(a, b);
    sorted[first + distance] = up ? max(a, b) : min(a, b);
  }
}
