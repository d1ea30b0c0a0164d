// SPDX-License-Identifier: Apache-2.0
//
// Each work-item runs a xorshift generator: every step needs the one before it, and no compiler knows a shortcut.
// Started above zero it never reaches zero, which the compiler does not know either, so the copy must wait for it.
__kernel void spin(__global const float* input, __global float* output, uint n, uint items, uint iterations) {
  const uint id = get_global_id(0);
  uint state = id + 1;
  for (uint i = 0; i < iterations; ++i) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
  }
  for (uint i = id; i < n; i += items) output[i] = state == 0 ? 0.0f : input[i];
}
