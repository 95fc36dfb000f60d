"""Instructions that numba has no name for, and what stands in for them in the simulator.

The simulator runs kernels as ordinary Python, on numpy's numbers, and knows neither intrinsics nor
shuffles. Each name below therefore exists twice; kernels import it without asking which one.
"""

import numpy as np
from llvmlite import ir
from numba import config, cuda
from numba.cuda import types
from numba.cuda.extending import intrinsic

SIMULATED = bool(config.ENABLE_CUDASIM)
WARP = 32

# Shared memory through which a simulated warp adds; nothing on a device, where it shuffles.
SCRATCH = 1024 if SIMULATED else 1

_i8, _i16, _i32, _i64 = (ir.IntType(width) for width in (8, 16, 32, 64))
_SHARED = 3  # address space of shared memory
_half, _float = ir.HalfType(), ir.FloatType()


def _element(context, builder, signature, args):
    """Pointer to the element that the first two arguments, array and index, name."""
    array = context.make_array(signature.args[0])(context, builder, value=args[0])
    index = context.cast(builder, args[1], signature.args[1], types.int64)
    return builder.gep(array.data, [index])


@intrinsic
def _load_words(typingctx, array, index):
    def codegen(context, builder, signature, args):
        pointer = _element(context, builder, signature, args)
        kind = ir.FunctionType(ir.LiteralStructType([_i32] * 4), [pointer.type])
        # Codes are read once: they pass the first cache by, and leave it to the inputs.
        text = "ld.global.nc.L1::no_allocate.v4.u32 {$0, $1, $2, $3}, [$4];"
        words = builder.call(ir.InlineAsm(kind, text, "=r,=r,=r,=r,l"), [pointer])
        parts = [builder.extract_value(words, i) for i in range(4)]
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(types.uint32, 4)(array, index), codegen


@intrinsic
def _aligned_address(typingctx, array, size):
    def codegen(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, value=args[0])
        size = context.cast(builder, args[1], signature.args[1], types.uint32)
        shared = ir.PointerType(array.data.type.pointee, _SHARED)
        start = builder.ptrtoint(builder.addrspacecast(array.data, shared), _i32)
        below = builder.sub(size, ir.Constant(_i32, 1))
        return builder.and_(builder.add(start, below), builder.not_(below))

    return types.uint32(array, size), codegen


@intrinsic
def _store_at(typingctx, array, address, index, value):
    def codegen(context, builder, signature, args):
        element = signature.args[0].dtype
        address, index = (
            context.cast(builder, arg, kind, types.uint32)
            for arg, kind in zip(args[1:3], signature.args[1:3], strict=True)
        )
        offset = builder.mul(index, ir.Constant(_i32, element.bitwidth // 8))
        kind = ir.PointerType(context.get_data_type(element), _SHARED)
        pointer = builder.inttoptr(builder.add(address, offset), kind)
        builder.store(context.cast(builder, args[3], signature.args[3], element), pointer)
        return context.get_dummy_value()

    return types.void(array, address, index, value), codegen


@intrinsic
def _lookup(typingctx, array, address, word, mask):
    def codegen(context, builder, signature, args):
        address, word, mask = (
            context.cast(builder, arg, kind, types.uint32)
            for arg, kind in zip(args[1:], signature.args[1:], strict=True)
        )
        kind = ir.PointerType(context.get_data_type(signature.return_type), _SHARED)
        # An address is a multiple of the table's size: one instruction masks and adds.
        return builder.load(builder.inttoptr(builder.or_(address, builder.and_(word, mask)), kind))

    return array.dtype(array, address, word, mask), codegen


@intrinsic
def _load_four(typingctx, array, address):
    def codegen(context, builder, signature, args):
        address = context.cast(builder, args[1], signature.args[1], types.uint32)
        kind = ir.PointerType(ir.VectorType(_float, 4), _SHARED)
        four = builder.load(builder.inttoptr(address, kind), align=16)
        parts = [builder.extract_element(four, ir.Constant(_i32, i)) for i in range(4)]
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(types.float32, 4)(array, address), codegen


@intrinsic
def _rotate_right(typingctx, word, distance):
    def codegen(context, builder, signature, args):
        word, distance = (
            context.cast(builder, arg, kind, types.uint32)
            for arg, kind in zip(args, signature.args, strict=True)
        )
        left = builder.and_(builder.neg(distance), ir.Constant(_i32, 31))
        return builder.or_(builder.lshr(word, distance), builder.shl(word, left))

    return types.uint32(word, distance), codegen


@intrinsic
def _code_of(typingctx, word, shift, mask):
    def codegen(context, builder, signature, args):
        word, shift, mask = (
            context.cast(builder, arg, kind, types.uint32)
            for arg, kind in zip(args, signature.args, strict=True)
        )
        return builder.and_(builder.lshr(word, shift), mask)

    return types.uint32(word, shift, mask), codegen


@intrinsic
def _pack_floats(typingctx, low, high):
    def codegen(context, builder, signature, args):
        low, high = (builder.zext(builder.bitcast(arg, _i32), _i64) for arg in args)
        return builder.or_(low, builder.shl(high, ir.Constant(_i64, 32)))

    return types.uint64(types.float32, types.float32), codegen


@intrinsic
def _unpack_floats(typingctx, packed):
    def codegen(context, builder, signature, args):
        high = builder.lshr(args[0], ir.Constant(_i64, 32))
        parts = [builder.bitcast(builder.trunc(part, _i32), _float) for part in (args[0], high)]
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(types.float32, 2)(types.uint64), codegen


@intrinsic
def _pack_halves(typingctx, low, high):
    def codegen(context, builder, signature, args):
        low, high = (
            builder.zext(builder.bitcast(builder.fptrunc(arg, _half), _i16), _i32) for arg in args
        )
        return builder.or_(low, builder.shl(high, ir.Constant(_i32, 16)))

    return types.uint32(types.float32, types.float32), codegen


@intrinsic
def _unpack_halves(typingctx, packed):
    def codegen(context, builder, signature, args):
        high = builder.lshr(args[0], ir.Constant(_i32, 16))
        parts = [
            builder.fpext(builder.bitcast(builder.trunc(part, _i16), _half), _float)
            for part in (args[0], high)
        ]
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(types.float32, 2)(types.uint32), codegen


@intrinsic
def _dot_bytes(typingctx, unsigned, signed, total):
    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(_i32, [_i32, _i32, _i32])
        asm = ir.InlineAsm(kind, "dp4a.u32.s32 $0, $1, $2, $3;", "=r,r,r,r")
        return builder.call(asm, args)

    return types.int32(types.uint32, types.uint32, types.int32), codegen


@intrinsic
def _round_even(typingctx, value):
    def codegen(context, builder, signature, args):
        asm = ir.InlineAsm(ir.FunctionType(_float, [_float]), "cvt.rni.f32.f32 $0, $1;", "=f,f")
        return builder.call(asm, args)

    return types.float32(types.float32), codegen


@intrinsic
def _address_of(typingctx, array):
    def codegen(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, value=args[0])
        return builder.ptrtoint(array.data, _i64)

    return types.uint64(array), codegen


@intrinsic
def _float_bits(typingctx, value):
    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], _i32)

    return types.uint32(types.float32), codegen


def _shuffled_warp_sum(value, scratch):
    for distance in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, distance)
    return value


def _shuffled_warp_max(value, scratch):
    for distance in (16, 8, 4, 2, 1):
        value = max(value, cuda.shfl_xor_sync(0xFFFFFFFF, value, distance))
    return value


def _simulated_words(array, index):
    if index % 4:
        raise RuntimeError(f"16-byte load from word {index}, which is no multiple of 4")
    return array[index], array[index + 1], array[index + 2], array[index + 3]


class _Address:
    """Place in a shared array, in bytes; refuses what a device would read from elsewhere."""

    def __init__(self, array, offset):
        self.array, self.offset = array, int(offset)

    def __add__(self, distance):
        return _Address(self.array, self.offset + int(distance))

    def index(self, distance=0):
        offset = self.offset + int(distance)
        size = self.array.dtype.itemsize
        if offset % size or not 0 <= offset // size < len(self.array):
            raise RuntimeError(f"byte {offset} of a shared array of {len(self.array)} x {size}")
        return offset // size


def _simulated_aligned_address(array, size):
    return _Address(array, 0)


def _simulated_store_at(array, address, index, value):
    array[address.index(int(index) * array.dtype.itemsize)] = value


def _simulated_lookup(array, address, word, mask):
    return array[address.index(int(word) & int(mask))]


def _simulated_load_four(array, address):
    if address.offset % 16:
        raise RuntimeError(f"16-byte load from byte {address.offset}")
    first = address.index()
    address.index(12)
    return array[first], array[first + 1], array[first + 2], array[first + 3]


def _simulated_rotate_right(word, distance):
    word, distance = int(word), int(distance) % 32
    return np.uint32((word >> distance | word << (32 - distance)) & 0xFFFFFFFF)


def _simulated_code(word, shift, mask):
    return (int(word) >> int(shift)) & int(mask)


def _simulated_pack_floats(low, high):
    return np.array([low, high], dtype=np.float32).view(np.uint64)[0]


def _simulated_unpack_floats(packed):
    return tuple(np.array([packed], dtype=np.uint64).view(np.float32))


def _simulated_pack_halves(low, high):
    return np.array([low, high], dtype=np.float16).view(np.uint32)[0]


def _simulated_unpack_halves(packed):
    return tuple(np.array([packed], dtype=np.uint32).view(np.float16).astype(np.float32))


def _simulated_dot_bytes(unsigned, signed, total):
    left = np.array([unsigned], dtype=np.uint32).view(np.uint8).astype(np.int64)
    right = np.array([signed], dtype=np.uint32).view(np.int8).astype(np.int64)
    return np.int32(int(total) + int(left @ right))


def _simulated_round_even(value):
    return np.rint(np.float32(value))


def _simulated_float_bits(value):
    return int(np.array([value], dtype=np.float32).view(np.uint32)[0])


def _simulated_address(array):
    return array


def _simulated_warp_sum(value, scratch):
    """Every thread of the block calls this; the tree of additions is that of the shuffles."""
    thread = cuda.threadIdx.x
    scratch[thread] = value
    cuda.syncthreads()
    if thread % WARP == 0:
        lanes = [scratch[thread + lane] for lane in range(WARP)]
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [low + high for low, high in zip(lanes[:half], lanes[half:], strict=True)]
        value = lanes[0]
    cuda.syncthreads()
    return value


def _simulated_warp_max(value, scratch):
    thread = cuda.threadIdx.x
    scratch[thread] = value
    cuda.syncthreads()
    first = thread // WARP * WARP
    value = max(scratch[first + lane] for lane in range(WARP))
    cuda.syncthreads()
    return value


if SIMULATED:
    load_words, code_of = _simulated_words, _simulated_code
    aligned_address, store_at = _simulated_aligned_address, _simulated_store_at
    lookup, load_four, rotate_right = (
        _simulated_lookup, _simulated_load_four, _simulated_rotate_right,
    )  # fmt: skip
    pack_floats, unpack_floats = _simulated_pack_floats, _simulated_unpack_floats
    pack_halves, unpack_halves = _simulated_pack_halves, _simulated_unpack_halves
    dot_bytes, round_even = _simulated_dot_bytes, _simulated_round_even
    address_of, float_bits = _simulated_address, _simulated_float_bits
    _warp_sum, _warp_max = _simulated_warp_sum, _simulated_warp_max
else:
    load_words, code_of = _load_words, _code_of
    aligned_address, store_at = _aligned_address, _store_at
    lookup, load_four, rotate_right = _lookup, _load_four, _rotate_right
    pack_floats, unpack_floats = _pack_floats, _unpack_floats
    pack_halves, unpack_halves = _pack_halves, _unpack_halves
    dot_bytes, round_even = _dot_bytes, _round_even
    address_of, float_bits = _address_of, _float_bits
    _warp_sum, _warp_max = _shuffled_warp_sum, _shuffled_warp_max


def device_function(function):
    """Function that kernels call; it becomes part of each caller.

    Inlined by numba itself, it needs no device to be compiled for, and its loops over constants
    unroll with the caller's.
    """
    return cuda.jit(function, device=True, inline="always")


warp_sum, warp_max = device_function(_warp_sum), device_function(_warp_max)
