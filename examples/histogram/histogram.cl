// SPDX-License-Identifier: Apache-2.0
//
// Each group counts in local memory, where nobody else waits for its atomics, and adds its counts to the bins once.
__kernel void count(__global const uchar* restrict data, __global uint* restrict bins, uint n,
                    __local uint* restrict counts) {
  const uint item = get_local_id(0);
  for (uint i = item; i < 256; i += get_local_size(0)) counts[i] = 0;
  barrier(CLK_LOCAL_MEM_FENCE);
  const uint begin = 256 * (uint)get_global_id(0);
  const uint end = min(begin + 256, n);
  for (uint i = begin; i < end; ++i) atomic_inc(&counts[data[i]]);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint i = item; i < 256; i += get_local_size(0))
    if (counts[i] != 0) atomic_add(&bins[i], counts[i]);
}
