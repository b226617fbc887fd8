# Functions that are hard to outline; check_outlines.py compares what the outline says of each with Python's ast.
# fmt: off


def plain(x):
    if x.mean() > 0:
        return x * 2
    return -x


def chain(x):
    if x.sum() > 1.0:
        y = x
    elif x.sum() < -1.0:
        y = -x
    else:
        y = x * 2.0
    return y + 1.0


def else_if(x):
    if x > 1:
        y = 1
    else:
        if x > 2:
            y = 2
        else:
            y = 3
    return y


def conditions_over_lines(x, y):
    if (x > 1 and  # else: if x:
            y < [i for i in range(3) if i != 1][0]
            or not x):
        return 1
    elif x and \
            y:
        return 2  # if
    if x: return 3
    elif y: return 4

    # a comment between

    return 5


def strings(x):
    """if x: else: return
    if not code:
        return
    """
    if x == "if y: else 'z' # no":
        return 'else' if x else "it's"
    b = b'\'' rb"\\" if x else Rb''
    a = r"\" if" if x else f"{x if x else 1}" '''
if x:
    return
else: "''' """ " if """
    return a


def nested_functions(x):
    def inner(y):
        if y:
            return 1
        return 2
    class Local:
        if x:
            z = 1
    async def other():
        async with x as y:
            if y: return
        async for z in y:
            if z: continue
            pass
        else:
            return [a async for a in y if a]
    if inner(x):
        def f(): return
    return lambda y: y if y else x


def one_line(x):
    if x: y = 1; z = 2
    elif y: pass; return 2;
    else: x = 1; return
    if x: return 1
    y = 1; return y


def walrus(x):
    if (n := len(x)) > 3 and (m := n):
        return n
    while (y := x.pop()): print(y if y else (z := 1))
    return y


def ternaries_in_arguments(x, *rest, **named):
    print(x if x else 1, y=(2 if x else 3), *rest if rest else (), **named if named else {})
    y = [x if x else 0, *(x if x else y)] if rest else {1: 2 if x else 3, (4 if x else 5): 6}
    z = (x if rest else y) if named else (y if x else rest) if x else [1][0 if x else -1:2 if x else 3]
    w = not x if x else -x if y else ~x
    x[0 if y else 1] += 1 if z else 2
    return (x
            if w
            else y)


def comprehensions(x):
    a = [y if y else 0 for y in x if y if not y]
    b = {k: (v if v else k) for k, v in x.items() if k and v}
    c = sum(y for z in x if z for y in z if y > (1 if z else 2))
    return {y for y in ((1, 2) if x else (3,))}, a, b, c, [i for i, in x if i]


def match_guards(x):
    match x:
        case [1, y] if y > 1:
            return y
        case {"a": 1, **rest} if (rest):
            if rest:
                return 1
            return 2
        case _:
            pass
    match = 3
    case = match if x else 4
    match (x), y:
        case int(): return 1
    return match[case]


def arms_that_do_not_end(x):
    if x > 1:
        try:
            return 1
        except ValueError:
            return 2
        else:
            return 4
        finally:
            pass
    if x > 2:
        with x:
            return 1
    if x > 3:
        for y in x:
            return y
        else:
            return 5
    if x > 4:
        while True:
            return 1
    if x > 5:
        match x:
            case 1:
                return
    if x > 6:
        return 1
        x = 2
    if x > 7:
        assert False
    return x


def arms_that_end(x):
    for y in x:
        if y > 1:
            if y > 2:
                continue
            elif y > 3:
                break
            else:
                raise ValueError
        elif y > 4:
            return 1
        y = y + 1
        if y > 5:
            continue
    else:
        if x:
            return 3
        x = 4
    if x:
        if y:
            return 1
        return 2
    y = 2
    if y:
        if x:
            return 1
        elif y:
            return 2
    return x


def last_in_block(x):
    if x:
        if x > 1:
            return 1
    else:
        return 2


def asserts(x):
    assert x if x else 1, "if" if x else ""
    assert (x and
            1)
    if x: assert x; return
    return bool(x)


@decorator(1 if True else 2)
@other
def decorated(x: int = 1 if True else 2, *, y: "if" = 3) -> (int if True else str):
    z: int = 1 if x else 2
    if x: return z
    del x
    return yielding((yield 1 if z else 2))


def tabs(x):
	if x:
		return 1
	elif x > 2:
	    return 2
	return 3


def numbers(x):
    if x > 1e-5 and x < 0x1F or x == 1_000.5j or x == .5 or x >= 1.e+3:
        return 1 if x > .5 else 2
    return x.real


def ünïcode(é):
    if é == "ß": return "→" if é else é
    return é


def global_names(x):
    global if_, else_
    if_ = x.else_.if_ if x else else_
    from os import path as elif_
    import os as for_
    raise ValueError(x if x else 1) from (None if x else x)


def lambdas(x):
    f = lambda y, z=1 if x else 2: y if z else (lambda: z if y else x)
    if (lambda: x)(): return f
    if lambda: x: return 2
    return {1: lambda y: y if y else 2, 3: x}
