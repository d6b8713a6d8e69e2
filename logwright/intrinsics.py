"""Instructions for kernels that Python has no word for, as Numba's intrinsics.

Only `logwright.kernel_compiler` imports this module: kernels name an intrinsic by
`logwright.kernel.intrinsic`, so that a process that compiles nothing does not import Numba.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj


def _word_at(context: Any, builder: Any, array: Any, index: Any, bits: int) -> Any:
    """Return a pointer to an integer at an element of an array. Args: (Numba type, value) of the
    array.
    """
    kind, value = array
    data = context.make_array(kind)(context, builder, value).data
    return builder.bitcast(builder.gep(data, [index]), ir.IntType(bits).as_pointer())


@intrinsic
def load_u64(_typing: Any, data: Any, index: Any) -> Any:
    """Return the little-endian uint64 at byte `index` of a C-contiguous uint8 array; the caller
    checks the bounds.
    """
    signature = types.uint64(data, types.int64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = _word_at(context, builder, (signature.args[0], args[0]), args[1], 64)
        return builder.load(word, align=1)

    return signature, codegen


@intrinsic
def copy_span(_typing: Any, out: Any, at: Any, source: Any, start: Any, length: Any) -> Any:
    """Copy source[start : start + length] to out[at:], C-contiguous uint8 arrays that do not
    overlap; the caller checks the bounds, and that the length is not below 0.
    """
    signature = types.void(out, types.int64, source, types.int64, types.int64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target = context.make_array(signature.args[0])(context, builder, args[0])
        origin = context.make_array(signature.args[2])(context, builder, args[2])
        to, of = builder.gep(target.data, [args[1]]), builder.gep(origin.data, [args[3]])
        cgutils.raw_memcpy(builder, to, of, args[4], 1)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def prefetch(_typing: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of array[index], which may be outside: nothing is read."""
    signature = types.void(array, types.int64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i32 = ir.IntType(32)
        pointer = _word_at(context, builder, (signature.args[0], args[0]), args[1], 8)
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), i32, i32, i32])
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", tys=[ir.IntType(8).as_pointer()], fnty=kind
        )
        builder.call(function, [pointer, i32(1), i32(3), i32(1)])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def crc_u64(_typing: Any, crc: Any, word: Any) -> Any:
    """Step a CRC-32C by eight bytes, with the SSE4.2 instruction."""
    signature = types.uint64(types.uint64, types.uint64)

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        i64 = ir.IntType(64)
        function = builder.module.declare_intrinsic(
            "llvm.x86.sse42.crc32.64.64", fnty=ir.FunctionType(i64, [i64, i64])
        )
        return builder.call(function, [args[0], args[1]])

    return signature, codegen


@intrinsic
def address(_typing: Any, array: Any, index: Any) -> Any:
    """Return the address of array[index], int64; the array must be C-contiguous."""
    signature = types.int64(array, types.int64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        element = _word_at(context, builder, (signature.args[0], args[0]), args[1], 8)
        return builder.ptrtoint(element, ir.IntType(64))

    return signature, codegen


@intrinsic
def call(_typing: Any, function: Any, args: Any) -> Any:
    """Call the C function at an address with a tuple of int64, pointers and sizes; int64.

    Of a C int only the lower 32 bits of the result count.
    """
    signature = types.int64(types.int64, args)

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        i64 = ir.IntType(64)
        given = cgutils.unpack_tuple(builder, args[1])
        kind = ir.FunctionType(i64, [i64] * len(given))
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), given)

    return signature, codegen


@intrinsic
def store_u64(_typing: Any, data: Any, index: Any, word: Any) -> Any:
    """Write a little-endian uint64; the caller checks the bounds."""
    signature = types.void(data, types.int64, types.uint64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = _word_at(context, builder, (signature.args[0], args[0]), args[1], 64)
        builder.store(args[2], word, align=1)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def load_u32(_typing: Any, data: Any, index: Any) -> Any:
    """Return the little-endian uint32 at byte `index`, as uint64; the caller checks the bounds."""
    signature = types.uint64(data, types.int64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = _word_at(context, builder, (signature.args[0], args[0]), args[1], 32)
        return builder.zext(builder.load(word, align=1), ir.IntType(64))

    return signature, codegen


@intrinsic
def high_product(_typing: Any, left: Any, right: Any) -> Any:
    """Return the upper 64 bits of the product of two uint64."""
    signature = types.uint64(types.uint64, types.uint64)

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return signature, codegen


def unpack_arguments(kinds: Any) -> Any:
    """Make the intrinsic that reads the arguments of a kernel.

    Args:
        kinds: Numba's types of the arguments.

    Returns:
        an intrinsic: from the address of the cells that `logwright.kernel.describe` filled to the
        tuple of the arguments.
    """
    arguments = types.Tuple(kinds)

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        cells = _Cells(context, builder, args[0])
        return cells.read(arguments)

    @intrinsic
    def unpack(_typing: Any, _address: Any) -> Any:
        return arguments(types.int64), codegen

    return unpack


def pack_result(kind: Any) -> Any:
    """Make the intrinsic that writes a kernel's result, of this Numba type, to the cells at an
    address.
    """

    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        _Cells(context, builder, args[0]).write(kind, args[1])
        return context.get_dummy_value()

    @intrinsic
    def pack(_typing: Any, _address: Any, _result: Any) -> Any:
        return types.void(types.int64, kind), codegen

    return pack


class _Cells:
    """The cells of one call, one after the other, while LLVM's code is made."""

    def __init__(self, context: Any, builder: Any, address: Any) -> None:
        self._context = context
        self._builder = builder
        self._cells = builder.inttoptr(address, ir.IntType(64).as_pointer())
        self._taken = 0

    def _next(self) -> Any:
        self._taken += 1
        return self._builder.gep(self._cells, [ir.IntType(64)(self._taken - 1)])

    def read(self, kind: Any) -> Any:
        """Return the value of the next cells."""
        context, builder = self._context, self._builder
        if isinstance(kind, types.BaseTuple):
            return context.make_tuple(builder, kind, [self.read(each) for each in kind])
        if isinstance(kind, types.Array):
            return self._read_array(kind)
        if isinstance(kind, types.NoneType):
            return context.get_dummy_value()
        cell = builder.load(self._next())
        if isinstance(kind, types.Record):
            return builder.inttoptr(cell, context.get_value_type(kind))
        if isinstance(kind, types.Boolean):
            return builder.icmp_signed("!=", cell, ir.IntType(64)(0))
        return builder.bitcast(cell, context.get_value_type(kind))

    def _read_array(self, kind: Any) -> Any:
        context, builder = self._context, self._builder
        array = context.make_array(kind)(context, builder)
        element = context.get_data_type(kind.dtype)
        address = builder.load(self._next())
        shape = [builder.load(self._next()) for _ in range(kind.ndim)]
        item_bytes = context.get_constant(types.intp, context.get_abi_sizeof(element))
        strides = [item_bytes]
        for length in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], length))
        arrayobj.populate_array(
            array,
            data=builder.inttoptr(address, element.as_pointer()),
            shape=shape,
            strides=strides,
            itemsize=item_bytes,
            meminfo=None,
        )
        return array._getvalue()  # noqa: SLF001 -- as Numba's own intrinsics do

    def write(self, kind: Any, value: Any) -> None:
        """Write a value to the next cells."""
        context, builder = self._context, self._builder
        if isinstance(kind, types.BaseTuple):
            for at, each in enumerate(kind):
                self.write(each, builder.extract_value(value, at))
            return
        cell = self._next()
        if isinstance(kind, types.Float):
            value = builder.bitcast(
                context.cast(builder, value, kind, types.float64), ir.IntType(64)
            )
        elif not isinstance(kind, types.NoneType):
            value = context.cast(builder, value, kind, types.int64)
        else:
            value = ir.IntType(64)(0)
        builder.store(value, cell)
