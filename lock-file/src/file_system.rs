use nix::sys::statfs::{self as fs, FsType};

/// What can be said of locks on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    /// It belongs to this host and outlives its boot.
    Lasting,
    /// It belongs to this host and ends with its boot, and the tokens with it.
    Volatile,
    /// Other hosts may write it too, or it is no place for files. The kind of it, by name.
    Unfit(&'static str),
}

/// File systems that several hosts write, whose boot-time clocks differ, and of which most promise less of links and renames;
/// and those whose files are not files. What FUSE shows may be either.
///
/// One that is missing here is taken for a local one: a list of the good ones would refuse every new one. Overlay file systems
/// are good, containers have them: their upper layer is written by one host.
const UNFIT: &[(FsType, &str)] = &[
    (fs::AFS_SUPER_MAGIC, "AFS"),
    (fs::AUTOFS_SUPER_MAGIC, "autofs"),
    (fs::BPF_FS_MAGIC, "bpf"),
    (fs::CGROUP2_SUPER_MAGIC, "cgroup"),
    (fs::CGROUP_SUPER_MAGIC, "cgroup"),
    (fs::CODA_SUPER_MAGIC, "Coda"),
    (fs::DEBUGFS_MAGIC, "debugfs"),
    (fs::DEVPTS_SUPER_MAGIC, "devpts"),
    (fs::FUSE_SUPER_MAGIC, "FUSE"),
    (fs::HOSTFS_SUPER_MAGIC, "hostfs"),
    (fs::NCP_SUPER_MAGIC, "NCP"),
    (fs::NFS_SUPER_MAGIC, "NFS"),
    (fs::OCFS2_SUPER_MAGIC, "OCFS2"),
    (fs::PROC_SUPER_MAGIC, "proc"),
    (fs::SECURITYFS_MAGIC, "securityfs"),
    (fs::SMB_SUPER_MAGIC, "SMB"),
    (fs::SYSFS_MAGIC, "sysfs"),
    (fs::TRACEFS_MAGIC, "tracefs"),
    (FsType(0xff53_4d42), "CIFS"),
    (FsType(0xfe53_4d42), "SMB"),
    (FsType(0x5346_414f), "AFS"),
    (FsType(0x0102_1997), "9p"),
    (FsType(0x00c3_6400), "Ceph"),
    (FsType(0x0116_1970), "GFS2"),
    (FsType(0x0bd0_0bd0), "Lustre"),
    (FsType(0x4750_4653), "GPFS"),
    (FsType(0x7461_636f), "OCFS2"),
    (FsType(0x786f_4256), "a VirtualBox shared folder"),
    (FsType(0x6265_6570), "configfs"),
    (FsType(0x1980_0202), "mqueue"),
];

const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);

impl From<FsType> for FileSystem {
    fn from(magic: FsType) -> Self {
        if [fs::TMPFS_MAGIC, RAMFS_MAGIC].contains(&magic) {
            return Self::Volatile;
        }
        UNFIT.iter().find(|(unfit, _)| *unfit == magic).map_or(Self::Lasting, |(_, name)| Self::Unfit(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> FileSystem {
        FileSystem::from(fs::statfs(path).unwrap().filesystem_type())
    }

    #[test]
    fn the_kernel_s_own_file_systems_are_unfit() {
        assert_eq!(at("/proc"), FileSystem::Unfit("proc"));
        assert_eq!(at("/sys"), FileSystem::Unfit("sysfs"));
    }

    #[test]
    fn network_file_systems_are_unfit_and_local_ones_are_not() {
        assert_eq!(FileSystem::from(fs::NFS_SUPER_MAGIC), FileSystem::Unfit("NFS"));
        assert_eq!(FileSystem::from(FsType(0xfe53_4d42)), FileSystem::Unfit("SMB"));
        assert_eq!(FileSystem::from(fs::TMPFS_MAGIC), FileSystem::Volatile);
        for local in [fs::EXT4_SUPER_MAGIC, fs::XFS_SUPER_MAGIC, fs::BTRFS_SUPER_MAGIC, fs::OVERLAYFS_SUPER_MAGIC] {
            assert_eq!(FileSystem::from(local), FileSystem::Lasting);
        }
    }
}
