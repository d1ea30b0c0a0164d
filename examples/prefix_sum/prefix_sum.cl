// SPDX-License-Identifier: Apache-2.0
//
// Sums are formed as uint, where an overflow wraps around and is no undefined behaviour.
#define RUN 16  // elements of an item: block / items of the manifest

// Replaces each of a group's totals by the sum of those before it. One item does it: on a CPU that is cheaper than the
// log2(items) barriers of a tree.
void scan_group(__local int* restrict totals, uint item, uint items) {
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item == 0) {
    uint sum = 0;
    for (uint i = 0; i < items; ++i) {
      const uint total = totals[i];
      totals[i] = (int)sum;
      sum += total;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

__kernel void scan_blocks(__global const int* restrict values, __global int* restrict sums,
                          __global int* restrict totals, uint n, __local int* restrict run_totals) {
  const uint item = get_local_id(0), items = get_local_size(0);
  const uint begin = min(RUN * (uint)get_global_id(0), n);
  const uint end = min(begin + RUN, n);
  uint total = 0;
  for (uint i = begin; i < end; ++i) total += (uint)values[i];
  run_totals[item] = (int)total;
  scan_group(run_totals, item, items);
  uint sum = run_totals[item];
  for (uint i = begin; i < end; ++i) {
    sum += (uint)values[i];
    sums[i] = (int)sum;
  }
  if (item == items - 1) totals[get_group_id(0)] = (int)sum;
}

// The same once more for the totals of the blocks: each item takes a run of them.
__kernel void scan_totals(__global int* restrict totals, uint blocks, __local int* restrict run_totals) {
  const uint item = get_local_id(0), items = get_local_size(0);
  const uint run = (blocks + items - 1) / items;
  const uint begin = min(run * item, blocks);
  const uint end = min(begin + run, blocks);
  uint total = 0;
  for (uint i = begin; i < end; ++i) total += (uint)totals[i];
  run_totals[item] = (int)total;
  scan_group(run_totals, item, items);
  uint sum = run_totals[item];
  for (uint i = begin; i < end; ++i) {
    sum += (uint)totals[i];
    totals[i] = (int)sum;
  }
}

// Group g works on block g + 1.
__kernel void add_totals(__global int* restrict sums, __global const int* restrict totals, uint n) {
  const uint before = totals[get_group_id(0)];
  const uint begin = min(RUN * (uint)(get_global_id(0) + get_local_size(0)), n);
  const uint end = min(begin + RUN, n);
  for (uint i = begin; i < end; ++i) sums[i] = (int)((uint)sums[i] + before);
}
