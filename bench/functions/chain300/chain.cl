// SPDX-License-Identifier: Apache-2.0
//
// The generator of examples/spin: every step needs the one before it, and it never reaches zero, which the compiler
// does not know. So x keeps its values, and each kernel takes as long as `iterations` says.
uint spin(uint state, uint iterations) {
  for (uint i = 0; i < iterations; ++i) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
  }
  return state;
}

__kernel void first(__global const float* input, __global float* x, uint n, uint iterations) {
  const uint id = get_global_id(0), state = spin(id + 1, iterations);
  for (uint i = id; i < n; i += 64) x[i] = state == 0 ? 0.0f : input[i];
}

__kernel void next(__global float* x, uint n, uint iterations) {
  const uint id = get_global_id(0), state = spin(id + 1, iterations);
  for (uint i = id; i < n; i += 64) x[i] = state == 0 ? 0.0f : x[i];
}
