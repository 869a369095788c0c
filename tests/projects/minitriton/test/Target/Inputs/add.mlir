// out[i] = x[i] + y[i] for i < n, 256 elements a program.
func.func @add(%x: !mini.ptr<f32>, %y: !mini.ptr<f32>, %out: !mini.ptr<f32>, %n: i32) {
  %block = arith.constant 256 : i32
  %pid = mini.program_id x : i32
  %start = arith.muli %pid, %block : i32
  %starts = mini.splat %start : tensor<256xi32>
  %range = mini.range 0 to 256 : tensor<256xi32>
  %offsets = arith.addi %starts, %range : tensor<256xi32>
  %ns = mini.splat %n : tensor<256xi32>
  %mask = arith.cmpi slt, %offsets, %ns : tensor<256xi32>
  %xs = mini.splat %x : tensor<256x!mini.ptr<f32>>
  %xp = mini.addptr %xs, %offsets : tensor<256x!mini.ptr<f32>>, tensor<256xi32>
  %ys = mini.splat %y : tensor<256x!mini.ptr<f32>>
  %yp = mini.addptr %ys, %offsets : tensor<256x!mini.ptr<f32>>, tensor<256xi32>
  %os = mini.splat %out : tensor<256x!mini.ptr<f32>>
  %op = mini.addptr %os, %offsets : tensor<256x!mini.ptr<f32>>, tensor<256xi32>
  %zero = arith.constant dense<0.0> : tensor<256xf32>
  %a = mini.load %xp, %mask, %zero : tensor<256x!mini.ptr<f32>>
  %b = mini.load %yp, %mask : tensor<256x!mini.ptr<f32>>
  %sum = arith.addf %a, %b : tensor<256xf32>
  mini.store %op, %sum, %mask : tensor<256x!mini.ptr<f32>>
  return
}
