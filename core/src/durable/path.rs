//! The paths of a disk: relative, parts separated by `/`.

/// Whether a disk takes this path: relative, with no empty, `.` or `..` part; the empty path is the root.
#[must_use]
pub fn is_valid_path(path: &str) -> bool {
    path.is_empty() || path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0'))
}

/// The folder that holds this name; empty for a name at the root.
#[must_use]
pub fn folder_of(path: &str) -> &str {
    // Not `rsplit_once`, whose search can panic as far as a compiler sees.
    let slash = path.bytes().rposition(|byte| byte == b'/').unwrap_or(0);
    path.get(..slash).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_the_root() {
        for path in ["", "a", "a/b.seg", "job/chk-1/_metadata", ".part", "..."] {
            assert!(is_valid_path(path), "{path}");
        }
        for path in ["/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a\0b"] {
            assert!(!is_valid_path(path), "{path}");
        }
    }

    #[test]
    fn a_name_is_in_its_folder() {
        assert_eq!(folder_of("a/b/c"), "a/b");
        assert_eq!(folder_of("c"), "");
    }
}
