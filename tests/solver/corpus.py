"""Questions with their answers, one table for several test files: what real exports ask, and what only looks true."""

from __future__ import annotations

from pathlib import Path

from shapeproof.constraints.syntax.text import parse_formula

SWIN = Path(__file__).parents[1] / "constraints" / "swin_guards.txt"
SLOW = Path(__file__).with_name("hard_questions.txt")
SWIN_DOMAIN = ("1 <= b <= 64", "8 <= h <= 1024", "8 <= w <= 1024")

PROVED = [
    ("a*(a+1)*(a+2) % 6 == 0", []),
    ("a % (b*c) % b == a % b", ["b >= 1", "c >= 1"]),
    ("min(128*s, 512*s) == 128*s", ["s >= 1"]),
    ("((u+10)*(u+10)) % (u+10) == 0", ["u >= 0"]),
    ("u % 447 == 0", ["(256*u) % 447 == 0", "0 <= u <= 448"]),
    ("(u*s) % 8 == 0", ["(u*18*s) % 144 == 0"]),
    ("lo <= hi", ["lo <= mid", "mid <= hi"]),
    ("u0 + u1 <= n", ["u0 >= 0", "u1 >= 0", "u2 >= 0", "u0 + u1 + u2 == n"]),
    ("(3*n+2)//3 == n", []),
    ("((t+1)//2+1)//2 == (t+3)//4", []),
    ("(((h-1)//2+1)-1)//2+1 == (h+3)//4", []),
    ("W - 2*((W+1)//2) == 0 or W - 2*((W+1)//2) == -1", []),
    ("(n+7)//8*8 - n < 8", []),
    ("a*b - u >= 0", ["u <= a*b"]),
    ("min(a, b) + max(a, b) == a + b", []),
    ("min(a, max(a, b)) == a", []),
    ("max(min(a, b), min(a, c)) <= a", []),
    ("h//2 <= 64", ["h <= 128"]),
    ("((h + (7 - h%7)%7)//7)*7 == h + (7-h%7)%7", []),
    ("a*a % 4 == 0 or a*a % 4 == 1", []),
    ("a*x <= b*x", ["a <= b", "x >= 0"]),
    ("u//2 <= n", ["0 <= u", "u <= n"]),
    ("u <= s0*s1*4", ["u <= s0*s1", "s0 >= 0", "s1 >= 0"]),
    ("x//b <= y//b", ["x <= y", "b >= 1"]),
    ("(x//b)*b <= x", ["b >= 1"]),
    ("0 <= x % b < b", ["b >= 1"]),
    ("b < x % b <= 0", ["b <= -1"]),
    ("x//b//c == x//(b*c)", ["b >= 1", "c >= 1"]),
    ("n//2 + (n+1)//2 == n", []),
    ("s0//2 == d", ["s0 == 2*d"]),
    ("s1 == s2", ["s0*s1 == s0*s2", "s0 >= 1"]),
    ("x == 3", ["3 <= x", "x <= 3"]),
    ("x == y", ["x <= y", "y <= x"]),
    ("x >= 5 and x != 7", ["x == 5 or x == 9 or x >= 12"]),
    ("b >= 2", ["not (b == 1 and h == 8)", "b >= 1", "h == 8"]),
    ("a >= 1", ["a*b >= 1", "a >= 0", "b >= 0"]),
    ("int(n/4) == n//4", ["0 <= n <= 100000"]),
    ("ceil(n/4) == (n+3)//4", ["0 <= n <= 100000"]),
    ("int(n*0.5) == n//2", ["0 <= n <= 10**9"]),
    ("floor(h*2.0) == 2*h", ["1 <= h <= 10**9"]),
    ("int(n*0.29) <= 28", ["0 <= n <= 100"]),
    ("h/2 > 3", ["7 <= h <= 10**6"]),
    ("n <= 100", ["n*n <= 10000"]),
    ("x//y == 0", ["0 <= x", "x < y"]),
    ("(q*y + r)//y == q", ["0 <= r", "r < y"]),
    ("s % 12 == 0", ["s % 3 == 0", "s % 4 == 0"]),
    ("h//8 % 2 == 0", ["h % 16 == 0"]),
    ("(h + 4)//8 + h//8 == h//4", ["h >= 0"]),
    ("(n & 7) <= 7 and n << 3 == 8*n", []),
    ("2**n >= 1", ["n >= 0"]),
    ("x//2 + y//2 <= (x + y)//2", []),
    ("(k*n)//n == k", ["n != 0"]),
    ("a//b == (0-a)//(0-b)", ["b != 0"]),
    ("b % (b*h*w) != 0", ["b >= 1", "h >= 2", "w >= 2"]),
    ("b == 0 or (a*b)//b == a", []),
    ("(n if n > 1 else 1) >= 1", []),
    (" + ".join(f"x{i}" for i in range(40)) + " >= 40", [f"1 <= x{i} <= 9" for i in range(40)]),
]
"""(formula, given): each formula holds wherever what is given holds."""

REFUTED = [
    ("n != 1", ["n >= 1"], {"n": 1}),
    ("n//4 != 1", ["n >= 2", "n % 4 == 0"], {"n": 4}),
    ("(a//b)*b == a", ["a == 7", "b == 2"], {"a": 7, "b": 2}),
    ("a//b >= 0", ["a == 1", "0 <= b <= 1"], {"a": 1, "b": 0}),
    ("n//2*2 == n", ["n == 3"], {"n": 3}),
    ("int(100*0.29) == 29", [], {}),
    ("min(max(a - 10, -3), 2)**2 >= 4", ["9 < a < 11"], {"a": 10}),
]
"""(formula, given, witness): the only point, or one for all, at which what is given holds and the formula does not."""

UNDECIDED = [
    ("a**3 + b**3 != c**3", ["a >= 1", "b >= 1", "c >= 1"]),
    ("x*x - 61*y*y != 1", ["y >= 1", "x >= 1"]),
]
"""True (or false only very far away) and beyond every step: an honest answer takes the budget and is `undecided`."""


def swin():
    """The recorded decisions as formulas, in program order."""
    lines = SWIN.read_text(encoding="utf-8").splitlines()
    return [parse_formula(line) for line in lines if line.strip() and not line.startswith("#")]


def hard():
    """Questions that were slow once: the answer, the formula, and what is given."""
    for block in SLOW.read_text(encoding="utf-8").split("\n\n")[1:]:
        *given, last = block.splitlines()
        answer, _, text = last.partition(": ")
        yield answer, parse_formula(text), [parse_formula(fact) for fact in given]
