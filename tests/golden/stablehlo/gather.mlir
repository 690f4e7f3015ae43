module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6x8xf32>, %arg1: tensor<5xi32>) -> (tensor<6x5xf32> {jax.result_info = "result[0]"}, tensor<5xf32> {jax.result_info = "result[1]"}, tensor<6x8xf32> {jax.result_info = "result[2]"}, tensor<5x8xf32> {jax.result_info = "result[3]"}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
    %c_0 = stablehlo.constant dense<8> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<5xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<5xi1>, tensor<5xi32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<5xi32>) -> tensor<5x1xi32>
    %6 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 6, 1>}> : (tensor<6x8xf32>, tensor<5x1xi32>) -> tensor<6x5xf32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %8 = stablehlo.compare LT, %arg1, %7, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
    %c_2 = stablehlo.constant dense<6> : tensor<i32>
    %9 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %10 = stablehlo.add %arg1, %9 : tensor<5xi32>
    %11 = stablehlo.select %8, %10, %arg1 : tensor<5xi1>, tensor<5xi32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %12 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %13 = stablehlo.compare LT, %arg1, %12, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
    %c_4 = stablehlo.constant dense<8> : tensor<i32>
    %14 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %15 = stablehlo.add %arg1, %14 : tensor<5xi32>
    %16 = stablehlo.select %13, %15, %arg1 : tensor<5xi1>, tensor<5xi32>
    %17 = stablehlo.broadcast_in_dim %11, dims = [0] : (tensor<5xi32>) -> tensor<5x1xi32>
    %18 = stablehlo.broadcast_in_dim %16, dims = [0] : (tensor<5xi32>) -> tensor<5x1xi32>
    %19 = stablehlo.concatenate %17, %18, dim = 1 : (tensor<5x1xi32>, tensor<5x1xi32>) -> tensor<5x2xi32>
    %20 = "stablehlo.gather"(%arg0, %19) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<6x8xf32>, tensor<5x2xi32>) -> tensor<5xf32>
    %21 = call @argsort(%arg0) : (tensor<6x8xf32>) -> tensor<6x8xi32>
    %22 = call @take_along_axis(%arg0, %21) : (tensor<6x8xf32>, tensor<6x8xi32>) -> tensor<6x8xf32>
    %c_5 = stablehlo.constant dense<4> : tensor<i32>
    %23 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %24 = stablehlo.add %arg1, %23 : tensor<5xi32>
    %c_6 = stablehlo.constant dense<0> : tensor<i32>
    %25 = stablehlo.broadcast_in_dim %c_6, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %26 = stablehlo.compare LT, %24, %25, SIGNED : (tensor<5xi32>, tensor<5xi32>) -> tensor<5xi1>
    %c_7 = stablehlo.constant dense<6> : tensor<i32>
    %27 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i32>) -> tensor<5xi32>
    %28 = stablehlo.add %24, %27 : tensor<5xi32>
    %29 = stablehlo.select %26, %28, %24 : tensor<5xi1>, tensor<5xi32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0] : (tensor<5xi32>) -> tensor<5x1xi32>
    %c_8 = stablehlo.constant dense<5> : tensor<1xi32>
    %c_9 = stablehlo.constant dense<0> : tensor<i32>
    %31 = stablehlo.broadcast_in_dim %c_9, dims = [] : (tensor<i32>) -> tensor<5x1xi32>
    %32 = stablehlo.compare GE, %30, %31, SIGNED : (tensor<5x1xi32>, tensor<5x1xi32>) -> tensor<5x1xi1>
    %33 = stablehlo.broadcast_in_dim %c_8, dims = [1] : (tensor<1xi32>) -> tensor<1x1xi32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 1] : (tensor<1x1xi32>) -> tensor<5x1xi32>
    %35 = stablehlo.compare LE, %30, %34, SIGNED : (tensor<5x1xi32>, tensor<5x1xi32>) -> tensor<5x1xi1>
    %36 = stablehlo.and %32, %35 : tensor<5x1xi1>
    %c_10 = stablehlo.constant dense<true> : tensor<i1>
    %37 = stablehlo.reduce(%36 init: %c_10) applies stablehlo.and across dimensions = [1] : (tensor<5x1xi1>, tensor<i1>) -> tensor<5xi1>
    %38 = "stablehlo.gather"(%arg0, %30) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<6x8xf32>, tensor<5x1xi32>) -> tensor<5x8xf32>
    %39 = stablehlo.broadcast_in_dim %37, dims = [0] : (tensor<5xi1>) -> tensor<5x8xi1>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %40 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<5x8xf32>
    %41 = stablehlo.select %39, %38, %40 : tensor<5x8xi1>, tensor<5x8xf32>
    return %6, %20, %22, %41 : tensor<6x5xf32>, tensor<5xf32>, tensor<6x8xf32>, tensor<5x8xf32>
  }
  func.func private @argsort(%arg0: tensor<6x8xf32>) -> tensor<6x8xi32> {
    %0 = stablehlo.iota dim = 1 : tensor<6x8xi32>
    %1:2 = "stablehlo.sort"(%arg0, %0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>, %arg3: tensor<i32>, %arg4: tensor<i32>):
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %2 = stablehlo.compare EQ, %arg1, %cst, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %3 = stablehlo.select %2, %cst_0, %arg1 : tensor<i1>, tensor<f32>
      %4 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_1 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %5 = stablehlo.select %4, %cst_1, %3 : tensor<i1>, tensor<f32>
      %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %6 = stablehlo.compare EQ, %arg2, %cst_2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %7 = stablehlo.select %6, %cst_3, %arg2 : tensor<i1>, tensor<f32>
      %8 = stablehlo.compare NE, %arg2, %arg2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_4 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %9 = stablehlo.select %8, %cst_4, %7 : tensor<i1>, tensor<f32>
      %10 = stablehlo.compare LT, %5, %9, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    }) : (tensor<6x8xf32>, tensor<6x8xi32>) -> (tensor<6x8xf32>, tensor<6x8xi32>)
    return %1#1 : tensor<6x8xi32>
  }
  func.func private @take_along_axis(%arg0: tensor<6x8xf32>, %arg1: tensor<6x8xi32>) -> tensor<6x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<6x8xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<6x8xi32>, tensor<6x8xi32>) -> tensor<6x8xi1>
    %c_0 = stablehlo.constant dense<8> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<6x8xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<6x8xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<6x8xi1>, tensor<6x8xi32>
    %5 = stablehlo.reshape %4 : (tensor<6x8xi32>) -> tensor<6x8x1xi32>
    %c_1 = stablehlo.constant dense<7> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<6x8x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<6x8x1xi32>, tensor<6x8x1xi32>) -> tensor<6x8x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<6x8x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<6x8x1xi32>, tensor<6x8x1xi32>) -> tensor<6x8x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<6x8x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [2] : (tensor<6x8x1xi1>, tensor<i1>) -> tensor<6x8xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<6x8xf32>, tensor<6x8x1xi32>) -> tensor<6x8xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<6x8xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<6x8xi1>, tensor<6x8xf32>
    return %15 : tensor<6x8xf32>
  }
}
