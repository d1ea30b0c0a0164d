// SPDX-License-Identifier: Apache-2.0
__kernel void stay_forever(__global const float* x, __global float* z, uint stay) {
  // Volatile, or the compiler may take for granted that every loop ends.
  volatile uint still = stay;
  while (still) {
  }
  z[get_global_id(0)] = x[get_global_id(0)];
}
