module @jit__adam attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<4x8xf32> {tf.aliasing_output = 1 : i32}, %arg2: tensor<8xf32> {tf.aliasing_output = 2 : i32}, %arg3: tensor<4x8xf32> {tf.aliasing_output = 3 : i32}, %arg4: tensor<8xf32> {tf.aliasing_output = 4 : i32}, %arg5: tensor<4x8xf32> {tf.aliasing_output = 5 : i32}, %arg6: tensor<8xf32>, %arg7: tensor<4x8xf32>, %arg8: tensor<f32>) -> (tensor<8xf32> {jax.result_info = "result[0]['b']"}, tensor<4x8xf32> {jax.result_info = "result[0]['w']"}, tensor<8xf32> {jax.result_info = "result[1]['b']"}, tensor<4x8xf32> {jax.result_info = "result[1]['w']"}, tensor<8xf32> {jax.result_info = "result[2]['b']"}, tensor<4x8xf32> {jax.result_info = "result[2]['w']"}) {
    %cst = stablehlo.constant dense<0.899999976> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %1 = stablehlo.multiply %0, %arg2 : tensor<8xf32>
    %cst_0 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %3 = stablehlo.multiply %2, %arg6 : tensor<8xf32>
    %4 = stablehlo.add %1, %3 : tensor<8xf32>
    %cst_1 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %6 = stablehlo.multiply %5, %arg3 : tensor<4x8xf32>
    %cst_2 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %8 = stablehlo.multiply %7, %arg7 : tensor<4x8xf32>
    %9 = stablehlo.add %6, %8 : tensor<4x8xf32>
    %cst_3 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %11 = stablehlo.multiply %10, %arg4 : tensor<8xf32>
    %cst_4 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %12 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %13 = stablehlo.multiply %12, %arg6 : tensor<8xf32>
    %14 = stablehlo.multiply %13, %arg6 : tensor<8xf32>
    %15 = stablehlo.add %11, %14 : tensor<8xf32>
    %cst_5 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %17 = stablehlo.multiply %16, %arg5 : tensor<4x8xf32>
    %cst_6 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %19 = stablehlo.multiply %18, %arg7 : tensor<4x8xf32>
    %20 = stablehlo.multiply %19, %arg7 : tensor<4x8xf32>
    %21 = stablehlo.add %17, %20 : tensor<4x8xf32>
    %cst_7 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %22 = stablehlo.power %cst_7, %arg8 : tensor<f32>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %23 = stablehlo.subtract %cst_8, %22 : tensor<f32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %25 = stablehlo.divide %4, %24 : tensor<8xf32>
    %cst_9 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %26 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %27 = stablehlo.multiply %26, %25 : tensor<8xf32>
    %cst_10 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %28 = stablehlo.power %cst_10, %arg8 : tensor<f32>
    %cst_11 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %29 = stablehlo.subtract %cst_11, %28 : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %29, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %31 = stablehlo.divide %15, %30 : tensor<8xf32>
    %32 = stablehlo.sqrt %31 : tensor<8xf32>
    %cst_12 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %34 = stablehlo.add %32, %33 : tensor<8xf32>
    %35 = stablehlo.divide %27, %34 : tensor<8xf32>
    %36 = stablehlo.subtract %arg0, %35 : tensor<8xf32>
    %cst_13 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %37 = stablehlo.power %cst_13, %arg8 : tensor<f32>
    %cst_14 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %38 = stablehlo.subtract %cst_14, %37 : tensor<f32>
    %39 = stablehlo.broadcast_in_dim %38, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %40 = stablehlo.divide %9, %39 : tensor<4x8xf32>
    %cst_15 = stablehlo.constant dense<1.000000e-03> : tensor<f32>
    %41 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %42 = stablehlo.multiply %41, %40 : tensor<4x8xf32>
    %cst_16 = stablehlo.constant dense<9.990000e-01> : tensor<f32>
    %43 = stablehlo.power %cst_16, %arg8 : tensor<f32>
    %cst_17 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %44 = stablehlo.subtract %cst_17, %43 : tensor<f32>
    %45 = stablehlo.broadcast_in_dim %44, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %46 = stablehlo.divide %21, %45 : tensor<4x8xf32>
    %47 = stablehlo.sqrt %46 : tensor<4x8xf32>
    %cst_18 = stablehlo.constant dense<9.99999993E-9> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
    %49 = stablehlo.add %47, %48 : tensor<4x8xf32>
    %50 = stablehlo.divide %42, %49 : tensor<4x8xf32>
    %51 = stablehlo.subtract %arg1, %50 : tensor<4x8xf32>
    return %36, %51, %4, %9, %15, %21 : tensor<8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4x8xf32>
  }
}
