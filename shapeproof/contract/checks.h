/// The dtypes, by the numbers of torch's C++, AOTInductor and ExecuTorch.
enum class DType : int {
    uint8 = 0,
    int8 = 1,
    int16 = 2,
    int32 = 3,
    int64 = 4,
    float16 = 5,
    float32 = 6,
    float64 = 7,
    complex32 = 8,
    complex64 = 9,
    complex128 = 10,
    bool_ = 11,
    bfloat16 = 15,
    float8_e5m2 = 23,
    float8_e4m3fn = 24,
    float8_e5m2fnuz = 25,
    float8_e4m3fnuz = 26,
    uint16 = 27,
    uint32 = 28,
    uint64 = 29,
};

inline std::string dtype_name(DType dtype) {
    switch (dtype) {
        case DType::uint8: return "uint8";
        case DType::int8: return "int8";
        case DType::int16: return "int16";
        case DType::int32: return "int32";
        case DType::int64: return "int64";
        case DType::float16: return "float16";
        case DType::float32: return "float32";
        case DType::float64: return "float64";
        case DType::complex32: return "complex32";
        case DType::complex64: return "complex64";
        case DType::complex128: return "complex128";
        case DType::bool_: return "bool";
        case DType::bfloat16: return "bfloat16";
        case DType::float8_e5m2: return "float8_e5m2";
        case DType::float8_e4m3fn: return "float8_e4m3fn";
        case DType::float8_e5m2fnuz: return "float8_e5m2fnuz";
        case DType::float8_e4m3fnuz: return "float8_e4m3fnuz";
        case DType::uint16: return "uint16";
        case DType::uint32: return "uint32";
        case DType::uint64: return "uint64";
    }
    return "another";
}

/// A tensor: its sizes and its dtype. An int is given as it is.
struct Tensor {
    std::int64_t rank;
    const std::int64_t* sizes;
    DType dtype;
};

/// An integer as Python computes it. It is undefined after a division by zero, and where 64 bits do not hold it.
struct Int {
    std::int64_t value = 0;
    bool is_defined = true;

    Int(std::int64_t number) : value(number) {}
    static Int undefined() {
        Int nothing(0);
        nothing.is_defined = false;
        return nothing;
    }
};

inline Int operator+(Int a, Int b) {
    Int sum(0);
    sum.is_defined = !__builtin_add_overflow(a.value, b.value, &sum.value) && a.is_defined && b.is_defined;
    return sum;
}

inline Int operator-(Int a, Int b) {
    Int difference(0);
    difference.is_defined = !__builtin_sub_overflow(a.value, b.value, &difference.value) && a.is_defined && b.is_defined;
    return difference;
}

inline Int operator*(Int a, Int b) {
    Int product(0);
    product.is_defined = !__builtin_mul_overflow(a.value, b.value, &product.value) && a.is_defined && b.is_defined;
    return product;
}

inline Int operator-(Int a) { return Int(0) - a; }

/// Python's `a // b`, which rounds down.
inline Int floor_div(Int a, Int b) {
    if (!a.is_defined || !b.is_defined || b.value == 0) return Int::undefined();
    if (b.value == -1) return -a;
    const bool rounds = a.value % b.value != 0 && (a.value < 0) != (b.value < 0);
    return a.value / b.value - (rounds ? 1 : 0);
}

/// Python's `a % b`, which has the sign of b.
inline Int floor_mod(Int a, Int b) {
    if (!a.is_defined || !b.is_defined || b.value == 0) return Int::undefined();
    if (b.value == -1) return 0;
    const std::int64_t rest = a.value % b.value;
    return rest != 0 && (rest < 0) != (b.value < 0) ? rest + b.value : rest;
}

inline Int power(Int base, Int exponent) {
    if (!base.is_defined || !exponent.is_defined || exponent.value < 0) return Int::undefined();
    if (base.value == 0 || base.value == 1) return exponent.value == 0 ? Int(1) : base;
    if (base.value == -1) return exponent.value % 2 == 0 ? 1 : -1;
    Int result = 1;
    for (std::int64_t i = 0; i < exponent.value && result.is_defined; ++i) result = result * base;
    return result;
}

inline Int shift_left(Int a, Int count) { return a * power(2, count); }

inline Int shift_right(Int a, Int count) {
    if (!a.is_defined || !count.is_defined || count.value < 0) return Int::undefined();
    if (count.value > 62) return a.value < 0 ? -1 : 0;  // 64 bits do not hold 2**63
    return floor_div(a, power(2, count));
}

inline Int bitwise(Int a, Int b, std::int64_t value) { return a.is_defined && b.is_defined ? Int(value) : Int::undefined(); }
inline Int bit_and(Int a, Int b) { return bitwise(a, b, a.value & b.value); }
inline Int bit_or(Int a, Int b) { return bitwise(a, b, a.value | b.value); }
inline Int bit_xor(Int a, Int b) { return bitwise(a, b, a.value ^ b.value); }

inline Int least(Int a, Int b) { return bitwise(a, b, a.value < b.value ? a.value : b.value); }
inline Int greatest(Int a, Int b) { return bitwise(a, b, a.value > b.value ? a.value : b.value); }

/// The answer of a comparison; undefined where one of the numbers is.
enum class Truth { no, yes, undefined };

inline Truth answer(bool holds, Int a, Int b) {
    return !a.is_defined || !b.is_defined ? Truth::undefined : holds ? Truth::yes : Truth::no;
}
inline Truth operator==(Int a, Int b) { return answer(a.value == b.value, a, b); }
inline Truth operator!=(Int a, Int b) { return answer(a.value != b.value, a, b); }
inline Truth operator<=(Int a, Int b) { return answer(a.value <= b.value, a, b); }
inline Truth operator<(Int a, Int b) { return answer(a.value < b.value, a, b); }
inline Truth operator>=(Int a, Int b) { return answer(a.value >= b.value, a, b); }
inline Truth operator>(Int a, Int b) { return answer(a.value > b.value, a, b); }

// Python's `and` and `or`: from the left, until one decides.
inline Truth operator&&(Truth a, Truth b) { return a == Truth::yes ? b : a; }
inline Truth operator||(Truth a, Truth b) { return a == Truth::no ? b : a; }

inline Int where(Truth condition, Int then, Int otherwise) {
    if (condition == Truth::undefined) return Int::undefined();
    return condition == Truth::yes ? then : otherwise;
}

inline bool fails(Truth formula) { return formula != Truth::yes; }

/// Why inputs are refused, in a sentence; nothing where they are accepted.
using Refusal = std::optional<std::string>;

inline Refusal unequal(const std::string& what, const std::string& given, const std::string& expected) {
    return what + " = " + given + ", but " + what + " == " + expected + " is declared";
}

struct Named {
    const char* name;
    Int size;
};

inline Refusal refused(std::initializer_list<Named> given, const char* requirement) {
    std::string sentence;
    for (const Named& each : given) {
        const std::string value = each.size.is_defined ? std::to_string(each.size.value) : "more than 64 bits";
        sentence += std::string(each.name) + " = " + value + ", ";
    }
    return sentence + "but " + requirement;
}

/// The size of a tensor that is held against the formulas alone.
constexpr std::int64_t ANY = -1;

inline Refusal unlike(const Tensor& given, const std::string& name, DType dtype, std::initializer_list<std::int64_t> sizes) {
    if (given.dtype != dtype) return unequal(name + ".dtype", dtype_name(given.dtype), dtype_name(dtype));
    const auto rank = static_cast<std::int64_t>(sizes.size());
    if (given.rank != rank) return unequal(name + ".ndim", std::to_string(given.rank), std::to_string(rank));
    const std::int64_t* size = given.sizes;
    for (const std::int64_t expected : sizes) {
        const std::int64_t value = *size++;
        if (value >= 0 && (expected == ANY || expected == value)) continue;
        const std::string what = name + ".shape[" + std::to_string(size - given.sizes - 1) + "]";
        if (value >= 0) return unequal(what, std::to_string(value), std::to_string(expected));
        return what + " = " + std::to_string(value) + ", but " + what + " >= 0 is declared";
    }
    return std::nullopt;
}
