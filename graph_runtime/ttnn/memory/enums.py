"""Enums of ttnn that only a card or another chip gives a meaning, with the members of the release 0.81.1."""

from __future__ import annotations

import enum

__all__ = [
    "NOC",
    "NOC_MODE",
    "BinaryOpType",
    "ChunkGdnWyInverse",
    "CoreType",
    "D2DStageGateMode",
    "DataMovementProcessor",
    "DispatchAlgorithm",
    "DistributedLayerNormStage",
    "DumpTensorMode",
    "FabricManagerMode",
    "FabricReliabilityMode",
    "FabricTensixConfig",
    "FabricType",
    "FabricUDMMode",
    "GeluVariant",
    "H2DMode",
    "LayerNormType",
    "MMSignalAggregatorMode",
    "McastCoreOrder",
    "McastDataReady",
    "McastSenderPlacement",
    "RGBRange",
    "ReduceType",
    "RoutedExpertActivation",
    "SocketEndpoint",
    "SparseKVFormat",
    "TileReshapeMapMode",
    "TransferMode",
    "UnpackToDestMode",
    "WorkerMode",
    "YUVColorSpace",
    "YUVFormat",
    "YUVRange",
]

BinaryOpType = enum.Enum(
    "BinaryOpType",
    "ADD SUB MUL GT LT LE GE EQ NE SQUARED_DIFFERENCE BIAS_GELU LOGADDEXP LOGICAL_AND LOGICAL_OR "
    "LOGICAL_XOR LDEXP LOGADDEXP2 DIV DIV_FLOOR DIV_TRUNC REMAINDER FMOD RSUB POWER BITWISE_XOR "
    "BITWISE_AND BITWISE_OR LEFT_SHIFT RIGHT_SHIFT LOGICAL_RIGHT_SHIFT QUANT REQUANT DEQUANT MAXIMUM "
    "MINIMUM GCD LCM ADDALPHA SUBALPHA XLOGY HYPOT ATAN2 NEXTAFTER WHERE_TST WHERE_TTS ISCLOSE SITU_GLU",
    start=0,
)
ChannelType = enum.Enum("ChannelType", "FULL_SIZE HEADER_ONLY", start=0)
ChunkCompression = enum.Enum("ChunkCompression", "UNROLLED STRIDED_ROWS", start=0)
ChunkGdnWyInverse = enum.Enum("ChunkGdnWyInverse", "AUTO HORNER FORWARD_SUBSTITUTION", start=0)
CoreType = enum.Enum(
    "CoreType",
    "ARC DRAM ACTIVE_ETH IDLE_ETH PCIE TENSIX ROUTER_ONLY SECURITY L2CPU DISPATCH HARVESTED ETH WORKER "
    "COUNT UNSPECIFIED",
    start=0,
)
D2DStageGateMode = enum.Enum("D2DStageGateMode", "KeepOpen CloseOnTransit", start=0)
DataMovementProcessor = enum.Enum(
    "DataMovementProcessor",
    ("RISCV_0 RISCV_1 RISCV_2 RISCV_3 RISCV_4 RISCV_5 RISCV_6 RISCV_7"),
    start=0,
)
DispatchAlgorithm = enum.Enum(
    "DispatchAlgorithm",
    ("BROADCAST SPARSE_UNICAST SPARSE_MCAST_LINEAR SPARSE_MCAST_SHORTEST_PATH SPARSE_MCAST_SPLIT_BW"),
    start=0,
)
DistributedLayerNormStage = enum.Enum(
    "DistributedLayerNormStage",
    ("NOT_DISTRIBUTED PRE_ALL_GATHER POST_ALL_GATHER"),
    start=0,
)
DumpTensorMode = enum.Enum("DumpTensorMode", "DISTRIBUTED_GATHER LOCAL", start=0)
FabricManagerMode = enum.Enum(
    "FabricManagerMode", {"DEFAULT": 3, "ENABLED": 0, "INIT_FABRIC": 1, "TERMINATE_FABRIC": 2}
)
FabricReliabilityMode = enum.Enum(
    "FabricReliabilityMode",
    ("STRICT_INIT RELAXED_INIT DYNAMIC_RECONFIG"),
    start=0,
)
FabricTensixConfig = enum.Enum("FabricTensixConfig", "DISABLED MUX", start=0)
FabricType = enum.Enum("FabricType", {"MESH": 1, "TORUS_X": 2, "TORUS_Y": 4, "TORUS_XY": 6})
FabricUDMMode = enum.Enum("FabricUDMMode", "DISABLED ENABLED", start=0)
GeluVariant = enum.Enum("GeluVariant", "Accurate FastLut Tanh", start=0)
H2DMode = enum.Enum("H2DMode", "HOST_PUSH DEVICE_PULL", start=0)
KernelBuildOptLevel = enum.Enum("KernelBuildOptLevel", "O1 O2 O3 O0 Os Ofast Oz", start=0)
KvChunkTensorType = enum.Enum("KvChunkTensorType", "Kv Snapshot", start=0)
LayerNormType = enum.Enum("LayerNormType", "LAYERNORM RMSNORM", start=0)
MMSignalAggregatorMode = enum.Enum("MMSignalAggregatorMode", "Auto On Off", start=0)
McastCoreOrder = enum.Enum("McastCoreOrder", "RowMajor ColumnMajor", start=0)
McastDataReady = enum.Enum("McastDataReady", "Flag Counter", start=0)
McastSenderPlacement = enum.Enum("McastSenderPlacement", "Uniform Staggered", start=0)
MoEActivationFunction = enum.Enum("MoEActivationFunction", "SILU SWIGLU GELU CLAMPED_SILU", start=0)
NOC = enum.Enum("NOC", "RISCV_0_default RISCV_1_default", start=0)
NOC_MODE = enum.Enum("NOC_MODE", "DM_DEDICATED_NOC DM_DYNAMIC_NOC", start=0)
RGBRange = enum.Enum("RGBRange", "MinusOneToOne ZeroToOne", start=0)
ReduceType = enum.Enum("ReduceType", "Sum Mean Max Min Std Var Prod", start=0)
RoutedExpertActivation = enum.Enum(
    "RoutedExpertActivation",
    ("Silu SwiGluOai SituGlu ClampedSiluGlu"),
    start=0,
)
SocketEndpoint = enum.Enum("SocketEndpoint", "SENDER RECEIVER", start=0)
SparseKVFormat = enum.Enum("SparseKVFormat", "BF16 FP8_E4M3 SCALED_FP8", start=0)
TileReshapeMapMode = enum.Enum("TileReshapeMapMode", "CACHE RECREATE", start=0)
TransferMode = enum.Enum("TransferMode", "Multicast ChainUnicast", start=0)
UnpackToDestMode = enum.Enum("UnpackToDestMode", "UnpackToDestFp32 Default", start=0)
WorkerMode = enum.Enum("WorkerMode", "DIRECT MUX_TOKEN_SPLIT MUX_PAYLOAD_SPLIT", start=0)
YUVColorSpace = enum.Enum("YUVColorSpace", "BT601 BT709 BT2020", start=0)
YUVFormat = enum.Enum("YUVFormat", "YUV420Planar", start=0)
YUVRange = enum.Enum("YUVRange", "Full Limited", start=0)
