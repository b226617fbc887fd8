"""What `torchlens diff` must say of two models of a case: the first source, what inherits, arguments, buffers, the verdict."""
import json
import math


def check(case, run, words, code, main):
    done = case.command("diff", *words, "--json", "--report", "report.md")
    case.stderr = done.stderr
    if done.code != code:
        case.fault(f"exit {done.code} where {code} was expected; stderr: {done.stderr.strip()[:600]}")
        return
    case.check_bounds(run, done)
    report = json.loads(done.stdout)
    verdict = "DIFFERENT" if code == 1 else "ACCEPTED" if run.get("accepted") else "SAME"
    if not report["verdict"].startswith(verdict + " ") or report["different"] != (code == 1):
        case.fault(f"the verdict is {report['verdict']!r} and different {report['different']} where {verdict} was expected")
    if report["coverage"]["compared"] != report["coverage"]["total"]:
        case.fault(f"compared {report['coverage']['compared']} of {report['coverage']['total']} sites")
    if not report["again"].startswith("torchlens diff "):
        case.fault(f"the command to repeat is {report['again']!r}")
    if code == 0 and not run.get("accepted"):
        check_same(case, report)
    else:
        check_source(case, run, report, main)
    check_preconditions(case, run, report)
    left = sorted(path.name for path in case.directory.iterdir())
    if left != ["report.md"]:
        case.fault(f"left {left} behind where a report alone was expected")


def check_same(case, report):
    outside = [site["name"] for site in report["sites"] if not site["within"]]
    if report["sources"] or outside:
        case.fault(f"{report['verdict']}: sources {report['sources']}, out of tolerance {outside}")


def check_source(case, run, report, main):
    """The one source is the module and operation of expect.json; what stands before agrees, what stands behind inherits."""
    expect = case.expect
    if len(report["sources"]) != 1:
        case.fault(f"{len(report['sources'])} sources where one was expected: {report['verdict']}")
        return
    source = report["sites"][report["sources"][0]]
    where = source["subject"]
    if where["module"] != expect["first_divergent_module"]:
        case.fault(f"the first source is in {where['module']}, not in {expect['first_divergent_module']}")
    operation = expect.get("first_divergent_op", run.get("op"))
    if where["func_name"] != operation:
        case.fault(f"the first source is {where['func_name']}, not {operation}")
    named = [argument["name"] for argument in source["arguments"]]
    if named != run["differing"]:
        case.fault(f"the arguments {named} are named, {run['differing']} differ")
    for site in report["sites"]:
        if site["row"] < source["row"] and (site["class"] != "agrees" or not equal(site, run)):
            case.fault(f"{site['name']} before the source is {site['class']}, max_abs {site['metrics']['max_abs']}")
        if site["row"] > source["row"] and site["class"] not in run.get("behind", ["inherited"]):
            case.fault(f"{site['name']} behind the source is {site['class']}")
    if main and "max_abs_at_output" in expect:
        got = report["sites"][-1]["metrics"]["max_abs"]
        if not math.isclose(got, expect["max_abs_at_output"], rel_tol=1e-3):
            case.fault(f"the output differs by {got}, by {expect['max_abs_at_output']} in Python")


def equal(site, run):
    return site["metrics"]["bitwise_equal"] or not run.get("bitwise", True)


def check_preconditions(case, run, report):
    found = {entry["name"]: entry for entry in report["preconditions"]}
    for name, texts in run.get("preconditions", {}).items():
        details = "\n".join(found.get(name, {}).get("details", []))
        for text in texts:
            if found.get(name, {}).get("agreement") != "different" or text not in details:
                case.fault(f"{name}: {text!r} is not in {found.get(name)}")
