// SPDX-License-Identifier: Apache-2.0
__kernel void saxpy(__global const float* restrict x, __global const float* restrict y, __global float* restrict z,
                    float alpha, uint n) {
  const size_t i = get_global_id(0);
  if (i < n) z[i] = alpha * x[i] + y[i];  // the global size is n rounded up to whole groups
}
