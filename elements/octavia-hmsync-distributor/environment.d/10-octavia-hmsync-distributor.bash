export DIB_REPOLOCATION_octavia_hmsync=${DIB_REPOLOCATION_octavia_hmsync:-${OCTAVIA_HMSYNC_REPO:?is the Git repository of octavia-hmsync: set it}}
export DIB_HMSYNC_RELEASE=${DIB_HMSYNC_RELEASE:-2026.1}
# Else eth0 and eth1 ask for addresses by DHCP, one of them in a network of
# tenants.
export DIB_APT_MINIMAL_CREATE_INTERFACES=0
export DIB_CLOUD_INIT_DATASOURCES=${DIB_CLOUD_INIT_DATASOURCES:-ConfigDrive}
