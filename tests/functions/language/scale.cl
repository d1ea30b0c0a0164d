__kernel void scale_each(__global const float* x, __global const float* factor, __global const float* nothing,
                         __global float* scaled) {
  const size_t i = get_global_id(0);
  scaled[i] = x[i] * factor[0];
}

__kernel void scale_blocks(__global const float* x, __global const float* factor, __global float* scaled, uint n) {
  const size_t i = get_global_id(0);
  if (i < n) scaled[i] = x[i] * factor[0];
}

__kernel void add(__global const float* bias, __global float* scaled) {
  const size_t i = get_global_id(0);
  scaled[i] += bias[i];
}
