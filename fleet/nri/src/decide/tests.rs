use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::*;
use crate::messages::{LinuxContainer, LinuxCpu, LinuxNamespace, LinuxResources, PodSandbox};

const POLICY: Policy = Policy {
    unasked: Treatment::Warm,
    at_most: Treatment::Copies,
};

fn request(annotations: &[(&str, &str)], container: Container) -> CreateContainerRequest {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    CreateContainerRequest {
        pod: Some(PodSandbox {
            annotations: annotations.iter().map(owned).collect(),
            ..PodSandbox::default()
        }),
        container: Some(container),
    }
}

fn node() -> Container {
    Container {
        id: "4f2a".to_owned(),
        name: "web".to_owned(),
        args: ["node", "server.js"].map(str::to_owned).into(),
        env: ["PATH=/first", "PATH=/usr/bin"].map(str::to_owned).into(),
        ..Container::default()
    }
}

fn order(annotations: &[(&str, &str)], container: Container) -> Order {
    match decide(&request(annotations, container), POLICY) {
        Decision::Prepare(order) => *order,
        Decision::Leave(why) => panic!("left: {why}"),
    }
}

fn left(annotations: &[(&str, &str)], container: Container) -> Option<Left> {
    match decide(&request(annotations, container), POLICY) {
        Decision::Prepare(_) => None,
        Decision::Leave(why) => Some(why),
    }
}

#[test]
fn a_pod_without_annotations_gets_what_the_node_gives() {
    let order = order(&[], node());
    assert_eq!(order.names, ["node", "server.js"]);
    assert_eq!(order.path.as_deref(), Some("/usr/bin"));
    assert!(!order.copies);
}

#[test]
fn a_pod_opts_out_or_asks_for_copies() {
    assert_eq!(left(&[(ANNOTATION, "off")], node()), Some(Left::Off));
    assert!(order(&[(ANNOTATION, "copies")], node()).copies);
    let own = "hugetext/text.container.web";
    let both = [(ANNOTATION, "off"), (own, "copies")];
    assert!(order(&both, node()).copies);
    let other = "hugetext/text.container.other";
    assert_eq!(
        left(&[(ANNOTATION, "off"), (other, "warm")], node()),
        Some(Left::Off)
    );
}

#[test]
fn nobody_gets_more_than_the_node_allows() {
    let strict = Policy {
        at_most: Treatment::Warm,
        ..POLICY
    };
    let asked = request(&[(ANNOTATION, "copies")], node());
    let Decision::Prepare(order) = decide(&asked, strict) else {
        panic!("left");
    };
    assert!(!order.copies);
    let off = Policy {
        at_most: Treatment::Off,
        ..POLICY
    };
    assert_eq!(decide(&asked, off), Decision::Leave(Left::Off));
}

#[test]
fn what_means_nothing_changes_nothing() {
    for value in ["", "yes", "COPIES ", "warm\n"] {
        assert_eq!(
            left(&[(ANNOTATION, value)], node()),
            Some(Left::UnknownValue)
        );
    }
    assert_eq!(
        decide(&CreateContainerRequest::default(), POLICY),
        Decision::Leave(Left::NoId)
    );
    for id in ["", "../../etc", "a/b", "a b", "a\0b"] {
        let container = Container {
            id: id.to_owned(),
            ..node()
        };
        assert_eq!(left(&[], container), Some(Left::NoId));
    }
}

#[test]
fn huge_and_strange_arguments_are_left() {
    let with = |args: Vec<String>| Container { args, ..node() };
    assert_eq!(left(&[], with(vec![])), Some(Left::NoProgram));
    assert_eq!(
        left(&[], with(vec!["x".repeat(1 << 20)])),
        Some(Left::NoProgram)
    );
    assert_eq!(
        left(&[], with(vec!["a\0b".to_owned()])),
        Some(Left::NoProgram)
    );
    let many = order(&[], with(vec!["x".to_owned(); 100_000]));
    assert_eq!(many.names.len(), 2);
    let option = order(&[], with(vec!["sh".to_owned(), "-c".to_owned()]));
    assert_eq!(option.names, ["sh"]);
    let long = Container {
        env: vec![format!("PATH={}", "x".repeat(1 << 20))],
        ..node()
    };
    assert_eq!(order(&[], long).path, None);
}

#[test]
fn files_below_mounts_of_the_container_are_not_those_of_its_image() {
    let mount = |destination: &str| Mount {
        destination: destination.to_owned(),
        ..Mount::default()
    };
    let with = |destinations: &[&str]| {
        let mounts = destinations.iter().map(|path| mount(path)).collect();
        order(&[], Container { mounts, ..node() })
    };
    let order = with(&["/usr/lib//x/./", "/proc"]);
    assert!(order.covers(Path::new("/usr/lib/x/libnode.so")));
    assert!(order.covers(Path::new("/usr/lib/x")));
    assert!(!order.covers(Path::new("/usr/lib/xy")));
    assert!(with(&["/opt/../usr"]).covers(Path::new("/usr/bin/node")));
}

#[test]
fn no_copies_in_user_namespaces() {
    let linux = LinuxContainer {
        namespaces: vec![LinuxNamespace {
            r#type: "user".to_owned(),
        }],
        resources: None,
    };
    let container = Container {
        linux: Some(linux),
        ..node()
    };
    assert!(!order(&[(ANNOTATION, "copies")], container).copies);
}

#[test]
fn processors_of_a_pinned_container_are_read() {
    let pinned = |cpus: &str| {
        let resources = LinuxResources {
            cpu: Some(LinuxCpu {
                cpus: cpus.to_owned(),
            }),
        };
        let linux = LinuxContainer {
            namespaces: vec![],
            resources: Some(resources),
        };
        let container = Container {
            linux: Some(linux),
            ..node()
        };
        order(&[], container).processors
    };
    assert_eq!(pinned("0-2,8"), [0, 1, 2, 8]);
    assert_eq!(pinned(""), [0u32; 0]);
    for nonsense in ["3-1", "0-4294967295", "-", "a", "1-2-3"] {
        assert_eq!(pinned(nonsense), [0u32; 0], "{nonsense}");
    }
}

#[test]
fn copies_are_shown_read_only_at_the_files_own_paths() {
    let shown = Shown {
        path: "/usr/bin/node".into(),
        copy: "/var/cache/hugetext/x".into(),
    };
    let odd = Shown {
        path: Path::new(OsStr::from_bytes(&[b'/', 0xff])).into(),
        copy: "/var/cache/hugetext/y".into(),
    };
    let adjustment = adjustment(&[shown, odd]);
    let [mount] = adjustment.mounts.as_slice() else {
        panic!("{adjustment:?}");
    };
    assert_eq!(mount.destination, "/usr/bin/node");
    assert_eq!(mount.source, "/var/cache/hugetext/x");
    assert_eq!(mount.r#type, "bind");
    assert!(mount.options.iter().any(|option| option == "ro"));
}

#[test]
fn a_pod_asks_for_promotion_unless_it_opted_out() {
    let asks = |annotations: &[(&str, &str)]| {
        let request = request(annotations, node());
        promotion(request.pod.as_ref(), &node())
    };
    let own = "hugetext/promote.container.web";
    assert_eq!(asks(&[]), Promotion::Unasked);
    assert_eq!(asks(&[(PROMOTE, "true")]), Promotion::Asked);
    assert_eq!(asks(&[(PROMOTE, "false"), (own, "true")]), Promotion::Asked);
    assert_eq!(
        asks(&[(PROMOTE, "true"), (own, "false")]),
        Promotion::Unasked
    );
    for text in ["off", "nothing known"] {
        let both = [(PROMOTE, "true"), (ANNOTATION, text)];
        assert_eq!(asks(&both), Promotion::Unasked, "{text}");
    }
    for value in ["", "yes", "True", "true "] {
        assert_eq!(asks(&[(PROMOTE, value)]), Promotion::UnknownValue);
    }
    assert_eq!(promotion(None, &node()), Promotion::Unasked);
}

#[test]
fn containers_that_are_there_ask_through_their_own_pods() {
    let pod = |id: &str, value: &str| PodSandbox {
        id: id.to_owned(),
        annotations: HashMap::from([(PROMOTE.to_owned(), value.to_owned())]),
        ..PodSandbox::default()
    };
    let container = |id: &str, pod: &str| Container {
        id: id.to_owned(),
        pod_sandbox_id: pod.to_owned(),
        ..node()
    };
    let there = SynchronizeRequest {
        pods: vec![pod("1", "true"), pod("2", "false")],
        containers: vec![
            container("a", "1"),
            container("b", "2"),
            container("c", "3"),
        ],
        more: false,
    };
    let ids: Vec<&str> = asking(&there).map(|found| found.id.as_str()).collect();
    assert_eq!(ids, ["a"]);
}
