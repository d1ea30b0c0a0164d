// SPDX-License-Identifier: Apache-2.0
//
// A work-item per row and vector. Four sums side by side: a single one would wait for each addition before the next.
__kernel void spmv(__global const int* restrict row_start, __global const int* restrict column,
                   __global const float* restrict value, __global const float* restrict x, __global float* restrict y,
                   uint rows, uint columns) {
  const uint row = get_global_id(0), vector = get_global_id(1);
  if (row >= rows) return;
  __global const float* from = x + vector * columns;
  const int end = row_start[row + 1];
  int i = row_start[row];
  float4 sums = 0;
  for (; i + 4 <= end; i += 4) {
    const int4 at = vload4(0, column + i);
    sums += vload4(0, value + i) * (float4)(from[at.x], from[at.y], from[at.z], from[at.w]);
  }
  for (; i < end; ++i) sums.x += value[i] * from[column[i]];
  y[vector * rows + row] = (sums.x + sums.y) + (sums.z + sums.w);
}
