// SPDX-License-Identifier: Apache-2.0
__kernel void link(__global const float* x, __global float* z, uint iterations) {
  uint state = get_global_id(0) + 1;
  for (uint i = 0; i < iterations; ++i) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
  }
  z[get_global_id(0)] = state == 0 ? 0.0f : x[get_global_id(0)];
}
