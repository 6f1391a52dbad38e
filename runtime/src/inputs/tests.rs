use std::path::PathBuf;

use super::{Identity, InputError, Inputs};

fn identity(bytes: &[u8]) -> Identity {
    memory(bytes).input(0).expect("one input").identity()
}

fn memory(bytes: &[u8]) -> Inputs {
    Inputs::in_memory([("a", bytes)]).expect("memory can be read")
}

fn check(recorded: &[u8], now: &[u8]) -> Result<(), InputError> {
    memory(now).input(0).expect("one input").check_against(identity(recorded))
}

#[test]
fn an_input_that_stayed_or_grew_is_accepted() {
    let long = vec![b'x'; 200_000];
    let grown = [&long[..], b"more"].concat();
    for (recorded, now) in [(&b""[..], &b""[..]), (b"", b"a"), (b"a", b"ab"), (&long, &long), (&long, &grown)]
    {
        assert_eq!(check(recorded, now), Ok(()));
    }
}

#[test]
fn a_shrunk_input_is_refused_by_name() {
    let error = check(b"abc", b"ab").unwrap_err();
    assert_eq!(error, InputError::Shrunk { name: "a".into(), recorded: 3, found: 2 });
    assert!(error.to_string().contains("`a` has shrunk from 3 to 2 bytes"));
}

#[test]
fn a_changed_head_or_tail_is_refused_with_its_place() {
    let original = vec![b'x'; 200_000];
    for (at, from, to) in [(0, 0, 65_536), (65_535, 0, 65_536), (199_999, 134_464, 200_000)] {
        let mut changed = original.clone();
        changed[at] ^= 1;
        changed.extend_from_slice(b"grown too");
        let error = check(&original, &changed).unwrap_err();
        assert_eq!(error, InputError::Changed { name: "a".into(), from, to });
    }
}

#[test]
fn a_file_has_the_identity_of_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    std::fs::write(&path, b"one\ntwo\n").unwrap();
    let inputs = Inputs::files([path]).unwrap();
    assert_eq!(inputs.input(0).unwrap().identity(), identity(b"one\ntwo\n"));
    assert_eq!(inputs.total_bytes(), 8);
    let mut buf = [0; 10];
    assert_eq!(inputs.input(0).unwrap().open().unwrap().read_at(4, &mut buf), Ok(4));
    assert_eq!(&buf[..4], b"two\n");
}

#[test]
fn a_missing_input_and_a_folder_are_refused_by_name() {
    let missing = Inputs::files([PathBuf::from("/nowhere/at/all")]).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read input `/nowhere/at/all`: No such file"), "{missing}");
    let folder = Inputs::files([PathBuf::from("/")]).unwrap_err().to_string();
    assert_eq!(folder, "cannot read input `/`: not a regular file");
}
