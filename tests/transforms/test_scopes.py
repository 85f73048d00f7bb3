"""Names: where each is bound by Python's rules, and which bindings reach a use."""

from __future__ import annotations

import libcst as cst
import pytest
from transforms.binding import index_of, kind_of, name, owner, reaching

from xla_transforms.program import Program
from xla_transforms.scopes import How, parameters
from xla_transforms.source import Source
from xla_transforms.tree import walk

# ---- whose name it is


def test_a_name_nobody_binds() -> None:
    assert owner("print(x)\n", "x") == "nobody"


def test_a_function_binds_what_it_assigns() -> None:
    code = """
        x = 1
        def f():
            x = 2
            return x
        """
    assert owner(code, "x", 2) == "f"


def test_a_function_sees_the_module() -> None:
    assert owner("x = 1\ndef f():\n    return x\n", "x", 1) == "module"


def test_global_leads_past_the_functions_around() -> None:
    code = """
        x = 1
        def f():
            x = 2
            def g():
                global x
                x = 3
                return x
        """
    assert owner(code, "x", 4) == "module"


def test_global_binds_in_the_module_though_it_never_assigned() -> None:
    code = """
        def build():
            global model
            model = 1
        print(model)
        """
    assert owner(code, "model", 2) == "module"


def test_nonlocal_leads_to_the_next_function_around() -> None:
    code = """
        x = 1
        def f():
            x = 2
            def g():
                nonlocal x
                x = 3
                return x
        """
    assert owner(code, "x", 4) == "f"


def test_methods_do_not_see_the_class_body() -> None:
    code = """
        x = 1
        class C:
            x = 2
            y = x
            def f(self):
                return x
        """
    assert owner(code, "x", 2) == "C"
    assert owner(code, "x", 3) == "module"


def test_a_comprehension_keeps_its_target_to_itself() -> None:
    code = """
        x = 1
        y = [x for x in range(3)]
        print(x)
        """
    assert owner(code, "x", 1) == "listcomp"
    assert owner(code, "x", 3) == "module"


def test_the_first_iterable_of_a_comprehension_belongs_outside() -> None:
    assert owner("def f(x):\n    return [x for x in x]\n", "x", 3) == "f"


def test_a_walrus_in_a_comprehension_binds_outside_of_it() -> None:
    code = """
        def f(rows):
            found = [y for row in rows if (y := row)]
            return y
        """
    assert owner(code, "y", 2) == "f"


def test_defaults_and_decorators_are_evaluated_outside() -> None:
    code = """
        x = 1
        @deco(x)
        def f(x=x):
            return x
        """
    assert owner(code, "x", 1) == "module"
    assert owner(code, "x", 3) == "module"
    assert owner(code, "x", 4) == "f"


def test_lambda_parameters() -> None:
    assert owner("x = 1\nf = lambda x: x\n", "x", 2) == "lambda"
    assert owner("x = 1\nf = lambda y=x: y\n", "x", 1) == "module"


@pytest.mark.parametrize(
    "binder",
    [
        "x = 1", "x: int = 1", "for x in y: pass", "with y as x: pass", "import x", "import x.y",
        "from y import x",
        "from y import z as x", "import y as x", "def x(): pass", "class x: pass", "(x, z) = y",
        "[z, *x] = y",
        "x += 1", "print(x := 1)", "async def x(): pass", "for z, (x, _) in y: pass",
    ],
)  # fmt: skip
def test_everything_that_binds_a_name(binder: str) -> None:
    index = index_of(f"def f(y):\n    {binder}\n    print(x)\n")
    scope = index.scope_of(name(index, "print", -1)).owner("x")
    assert kind_of(scope) == "f"


def test_except_binds_a_name() -> None:
    assert owner("try:\n    f()\nexcept E as x:\n    print(x)\n", "x", 1) == "module"


def test_del_and_attributes_bind_nothing() -> None:
    index = index_of("a.x = 1\nb[x] = 2\n")
    assert index.scope_of(name(index, "b")).owner("x") is None


def test_match_binds_the_names_of_its_patterns() -> None:
    code = """
        def f(pair):
            match pair:
                case [x, *rest]:
                    return x, rest
                case {"k": y, **more}:
                    return y, more
                case C(z=z) as whole:
                    return z, whole
        """
    index = index_of(code)
    scope = index.scope_of(name(index, "pair", 1))
    bound = {n for n in ("x", "rest", "y", "more", "z", "whole") if scope.owner(n) is scope}
    assert bound == {"x", "rest", "y", "more", "z", "whole"}


def test_the_order_of_parameters() -> None:
    function = index_of("def f(a, /, b, *args, c, **kw): pass\n").source.module.body[0]
    assert isinstance(function, cst.FunctionDef)
    assert [p.name.value for p in parameters(function)] == ["a", "b", "c", "args", "kw"]


def test_import_paths() -> None:
    code = """
        import torch.nn as nn
        import torch.optim
        from torch import cuda
        from . import engine
        from .engine import train
        from ..data.sets import load as get
        """
    index = index_of(code)
    bindings = index.scopes[index.source.module].bindings
    assert {n: b[0].name for n, b in bindings.items()} == {
        "nn": "torch.nn",
        "torch": "torch",
        "cuda": "torch.cuda",
        "engine": ".engine",
        "train": ".engine.train",
        "get": "..data.sets.load",
    }


def test_attributes_are_indexed_by_name() -> None:
    index = index_of("class C:\n    def f(self, a):\n        self.net, self.opt = a\n")
    assert [(b.path, b.how) for b in index.attributes["opt"]] == [((1,), How.ASSIGN)]


def test_around_a_node() -> None:
    index = index_of(
        """
        class C:
            def f(self):
                g = lambda: x
        """
    )
    node = name(index, "x")
    function, owner_ = index.function_of(node), index.class_of(node)
    assert function is not None
    assert function.name.value == "f"
    assert owner_ is not None
    assert owner_.name.value == "C"
    assert isinstance(index.statement_of(node), cst.SimpleStatementLine)
    assert index.within(node, owner_)
    assert not index.within(owner_, node)


def test_named_leaves_out_attributes_keywords_and_parameters() -> None:
    index = index_of("def f(x, y=1):\n    a.x = g(x=x)\n")
    assert [index.source.span(n).line for n in index.named("x")] == [2]
    assert index.named("y") == []


# ---- which of the bindings reach a use


def test_the_last_assignment_counts_in_straight_code() -> None:
    code = """
        x = 1
        print(x)
        x = 2
        print(x)
        """
    assert reaching(code, 1) == {"1"}
    assert reaching(code, 3) == {"2"}


def test_the_value_of_an_assignment_sees_what_was_before() -> None:
    assert reaching("x = 1\nx = f(x)\nprint(x)\n", 2) == {"1"}
    assert reaching("x = 1\nx = f(x)\nprint(x)\n", 3) == {"f(x)"}


def test_both_ways_of_a_condition_are_kept() -> None:
    code = """
        if flag:
            x = 1
        else:
            x = 2
        print(x)
        """
    assert reaching(code, 2) == {"1", "2"}


def test_what_was_before_a_condition_survives_one_way() -> None:
    assert reaching("x = 1\nif flag:\n    x = 2\nprint(x)\n", 2) == {"1", "2"}


def test_a_chain_of_conditions() -> None:
    code = """
        x = 0
        if a:
            x = 1
        elif b:
            x = 2
        else:
            x = 3
        print(x)
        """
    assert reaching(code, 4) == {"1", "2", "3"}
    assert reaching(code.replace("else:", "elif c:"), 4) == {"0", "1", "2", "3"}


def test_inside_one_way_the_other_does_not_count() -> None:
    code = """
        x = 0
        if a:
            x = 1
        else:
            print(x)
        """
    assert reaching(code, 2) == {"0"}


# ---- the nodes of a part


def test_the_nodes_of_a_type_in_a_part_are_those_that_a_walk_finds() -> None:
    index = index_of(
        """
        @d(0)
        def f(x: g(1) = h(2)):
            with i(3) as j, k(4):
                return [l(m(5)) for n in o(6) if p(7)]
        x = lambda: q(8, r(9))
        if s(10): t(11)
        elif u(12): v(13)
        else: w(14)
        """
    )
    found = 0
    for part in walk(index.source.module):
        calls = [node for node in walk(part) if isinstance(node, cst.Call)]
        assert index.inside(part, cst.Call) == calls
        found += len(calls)
    assert found > 15


def test_the_nodes_of_some_types_are_found_with_those_of_inner_functions_or_without() -> None:
    index = index_of(
        """
        @d(0)
        def f(x, y=g(1)):
            h(lambda: i(x), lambda: x)
            for j in k(x):
                class A(l(2)):
                    a = m(x)
                    def n(self): return o(3)
                if p(j):
                    break
            return q(x)
        """
    )
    kinds = (cst.Call, cst.FunctionDef, cst.Break, cst.Name)
    for part in walk(index.source.module):
        assert index.below(part) == list(walk(part))
        assert index.inside(part, *kinds) == [n for n in walk(part) if type(n) in kinds]
        own = [n for n in walk(part, into_functions=False) if type(n) in kinds]
        assert list(index.own(part, *kinds)) == own
        assert index.last(part) == index.number(list(walk(part))[-1])


def test_what_stands_in_one_module_stands_in_no_part_of_another() -> None:
    text = "def f(x):\n    return g(x)\n"
    program = Program((name, Source(text)) for name in ("one", "other"))
    one, other = program.modules.values()
    (call,), (here,) = one.all(cst.Call), one.all(cst.FunctionDef)
    (there,) = other.all(cst.FunctionDef)
    for outer in (call, here, one.source.module):
        assert one.within(call, outer)
        assert other.within(call, outer)
    for outer in (there, other.source.module):
        assert not one.within(call, outer)
        assert not other.within(call, outer)
    assert not one.within(here, call)
    assert not one.within(one.source.module, here)
