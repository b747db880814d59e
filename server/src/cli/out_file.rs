//! Files that are written whole or not at all: until they are whole they have a temporary name beside their destination, so that a full
//! disk or an interruption leaves an earlier file as it was.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tempfile::{NamedTempFile, PersistError};

/// The temporary files of this process.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Removes the temporary files of a process that ends now.
pub fn remove_unfinished() {
    for path in UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        // One that is gone has got its name.
        let _ = fs::remove_file(path);
    }
}

/// A temporary file, removed when it is dropped and when a signal ends the process.
pub struct Temporary {
    // Dropped first.
    file: NamedTempFile,
    _listed: Listed,
}

impl Temporary {
    /// A file in the system's folder for temporary files, which its owner alone may read.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new() -> io::Result<Self> {
        Self::build(&std::env::temp_dir(), None)
    }

    /// A file in `folder`, with the permissions of any new file.
    fn beside(folder: &Path) -> io::Result<Self> {
        #[cfg(unix)]
        let permissions = Some(<Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666));
        #[cfg(not(unix))]
        let permissions = None;
        // The plain reason of a missing folder.
        fs::metadata(folder)?;
        Self::build(folder, permissions)
    }

    fn build(folder: &Path, permissions: Option<Permissions>) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".auricle-");
        if let Some(permissions) = permissions {
            builder.permissions(permissions);
        }
        // The message would name the temporary file.
        let file = builder.tempfile_in(folder).map_err(|error| io::Error::from(error.kind()))?;
        let listed = Listed::new(file.path());
        Ok(Self { file, _listed: listed })
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }

    pub fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }
}

/// A path in the list of temporary files, until it is dropped.
struct Listed(PathBuf);

impl Listed {
    fn new(path: &Path) -> Self {
        UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
        Self(path.to_owned())
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// An output file that is being written. Dropped before [`OutFile::keep`], it leaves the destination as it was.
pub struct OutFile(Place);

enum Place {
    /// A temporary file beside its destination.
    Temporary { temporary: Temporary, path: PathBuf },
    /// A device or a pipe, which takes what comes.
    Stream { file: File, path: PathBuf },
}

impl OutFile {
    /// # Errors
    /// If the destination cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        let earlier = match fs::metadata(path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let Some(earlier) = earlier else {
            let temporary = Temporary::beside(folder_of(path))?;
            return Ok(Self(Place::Temporary { temporary, path: path.to_owned() }));
        };
        // Fails for a folder and for a file that may not be written.
        let file = File::options().write(true).open(path)?;
        if !earlier.is_file() {
            return Ok(Self(Place::Stream { file, path: path.to_owned() }));
        }
        // A link stays, and leads to the new file.
        let path = path.canonicalize()?;
        let temporary = Temporary::beside(folder_of(&path))?;
        fs::set_permissions(temporary.path(), earlier.permissions())?;
        Ok(Self(Place::Temporary { temporary, path }))
    }

    /// The path to write to until the file is kept.
    pub fn path(&self) -> &Path {
        match &self.0 {
            Place::Temporary { temporary, .. } => temporary.path(),
            Place::Stream { path, .. } => path,
        }
    }

    pub fn file(&mut self) -> &mut File {
        match &mut self.0 {
            Place::Temporary { temporary, .. } => temporary.file(),
            Place::Stream { file, .. } => file,
        }
    }

    /// Gives the file its name, in place of an earlier one.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub fn keep(self) -> io::Result<()> {
        self.name(NamedTempFile::persist)
    }

    /// Gives the file its name, which no other file has.
    ///
    /// # Errors
    /// If another file has it, or the disk does not take this one.
    pub fn keep_new(self) -> io::Result<()> {
        self.name(NamedTempFile::persist_noclobber)
    }

    fn name(self, persist: fn(NamedTempFile, PathBuf) -> Result<File, PersistError>) -> io::Result<()> {
        match self.0 {
            Place::Temporary { temporary: Temporary { file, _listed }, path } => {
                // Some file systems report a full disk here.
                file.as_file().sync_all()?;
                persist(file, path).map(|_| ()).map_err(|error| error.error)
            }
            Place::Stream { .. } => Ok(()),
        }
    }
}

/// Writes a file whole.
///
/// # Errors
/// If it cannot be written. An earlier file stays then.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OutFile::create(path)?;
    file.file().write_all(bytes)?;
    file.keep()
}

/// Checks that files can be made in a folder, before there is something to write.
///
/// # Errors
/// If they cannot.
pub fn check_folder(folder: &Path) -> io::Result<()> {
    Temporary::beside(folder).map(|_| ())
}

/// The folder of a file.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_file_that_is_not_kept_leaves_the_earlier_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.txt");
        write(&path, b"earlier").unwrap();
        let mut file = OutFile::create(&path).unwrap();
        file.file().write_all(b"half of").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"earlier");
        assert_eq!(names(folder.path()).len(), 2);
        drop(file);
        assert_eq!(names(folder.path()), ["talk.txt"]);
        write(&path, b"later").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"later");
        assert_eq!(names(folder.path()), ["talk.txt"]);
    }

    #[test]
    fn a_new_file_replaces_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.wav");
        let file = OutFile::create(&path).unwrap();
        fs::write(&path, "came meanwhile").unwrap();
        assert_eq!(file.keep_new().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"came meanwhile");
        assert_eq!(names(folder.path()), ["talk.wav"]);
    }

    #[test]
    fn a_folder_takes_the_place_of_no_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write(folder.path(), b"text").is_err());
        assert!(write(&folder.path().join("none/talk.txt"), b"text").is_err());
        assert!(check_folder(&folder.path().join("none")).is_err());
        assert!(names(folder.path()).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn links_permissions_and_devices_stay() {
        use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};

        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("talk.txt"), folder.path().join("link.txt"));
        fs::write(&path, "earlier").unwrap();
        let plain = fs::metadata(&path).unwrap().permissions().mode();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        symlink(&path, &link).unwrap();
        write(&link, b"later").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"later");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        write(&folder.path().join("new.txt"), b"new").unwrap();
        assert_eq!(fs::metadata(folder.path().join("new.txt")).unwrap().permissions().mode(), plain);
        write(Path::new("/dev/null"), b"nothing").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }
}
